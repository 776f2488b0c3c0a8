"""A collector of OpenTelemetry's protocol over HTTP, as far as a test needs one.

collector.py FILE [REJECT]: it prints its port and writes each message into a line of FILE, until its input ends. It has no room for the first
message, so the sender has to come again. With REJECT, it says of each message of spans that it rejects one."""

import http.server, json, os, sys, threading


class Collector(http.server.BaseHTTPRequestHandler):
    out = open(sys.argv[1], "wb")
    is_busy = True

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        kind = {"/v1/traces": b"resourceSpans", "/v1/logs": b"resourceLogs", "/v1/metrics": b"resourceMetrics"}.get(self.path)
        is_right = kind is not None and self.headers["Content-Type"] == "application/json" and body.startswith(b'{"' + kind)
        status, answer = (200, {}) if is_right else (400, {"message": "no such thing"})
        if Collector.is_busy:
            Collector.is_busy, status = False, 503
        elif is_right:
            Collector.out.write(body + b"\n")
            if sys.argv[2:] and kind == b"resourceSpans":
                answer = {"partialSuccess": {"rejectedSpans": "1", "errorMessage": "too old"}}
        text = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Collector)
threading.Thread(target=server.serve_forever, daemon=True).start()
print(server.server_port, flush=True)
sys.stdin.read()
Collector.out.close()
os._exit(0)
