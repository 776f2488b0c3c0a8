"""A Spark cluster on this machine: a standalone master and two workers on loopback, each a process of its own."""

import contextlib, os, pathlib, subprocess, tempfile, threading

import pyspark

WORKERS = 2

# The queries are small and each process is short: the first compiler and one collector cost least, and Spark's own classes are not verified.
JAVA = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto", "-XX:+UnlockDiagnosticVMOptions", "-XX:-BytecodeVerificationRemote"]

# Java 17 needs these; `spark-submit` adds them to drivers and executors only.
OPENED = ["lang", "lang.invoke", "lang.reflect", "io", "net", "nio", "util", "util.concurrent", "util.concurrent.atomic"]

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.extraJavaOptions": " ".join(JAVA),
    "spark.executor.extraJavaOptions": " ".join(JAVA),
    "spark.executor.memory": "512m",
    "spark.cores.max": str(WORKERS),
    "spark.sql.shuffle.partitions": str(WORKERS),
    "spark.sql.parquet.compression.codec": "zstd",
    # `"name"` is a name, as in the SQL standard.
    "spark.sql.ansi.enabled": "true",
    "spark.sql.ansi.doubleQuotedIdentifiers": "true",
    # A run named 007 keeps its name.
    "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
    # To compile a stage takes longer than to interpret it for some hundred rows.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
}


def java(name):
    home = os.environ.get("JAVA_HOME")
    jars = pathlib.Path(pyspark.__file__).parent / "jars" / "*"
    opened = [f"--add-opens=java.base/java.{package}=ALL-UNNAMED" for package in OPENED]
    return [f"{home}/bin/java" if home else "java", *JAVA, "-Xmx256m", "-Dspark.master.rest.enabled=false", *opened, "-cp", str(jars), name]


class Process:
    """A master or a worker."""

    def __init__(self, command, directory):
        self.command = command
        self.process = subprocess.Popen(
            command, cwd=directory, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )

    def says(self, text):
        """Waits for a line of its log with this text, and gives the rest of the line."""
        seen = []
        for line in self.process.stdout:
            seen.append(line)
            if text in line:
                # The log is read to the end, so that the process never waits for a reader.
                threading.Thread(target=self.process.stdout.read, daemon=True).start()
                return line.split(text, 1)[1].strip()
        raise SystemExit(f"{self.command} has ended:\n" + "".join(seen))

    def stop(self):
        self.process.terminate()
        self.process.wait()


@contextlib.contextmanager
def session():
    """A session of a cluster, which is stopped at the end."""
    from pyspark.sql import SparkSession

    with contextlib.ExitStack() as stack:
        directory = stack.enter_context(tempfile.TemporaryDirectory())
        # Workers start executors from here. Without the version they look for a build of Spark.
        home = pathlib.Path(pyspark.__file__).parent
        os.environ["SPARK_HOME"] = str(home)
        (library,) = home.glob("jars/scala-library-*.jar")
        os.environ["SPARK_SCALA_VERSION"] = ".".join(library.stem.rsplit("-", 1)[1].split(".")[:2])
        os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
        os.environ["SPARK_LOCAL_DIRS"] = directory

        def start(name, *arguments):
            command = [*java(f"org.apache.spark.deploy.{name}"), "--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]
            process = Process([*command, *arguments], directory)
            stack.callback(process.stop)
            return process

        master = "spark://" + start("master.Master").says("Starting Spark master at spark://")
        places = [os.path.join(directory, f"worker-{number}") for number in range(WORKERS)]
        workers = [start("worker.Worker", "--cores", "1", "--memory", "1g", "--work-dir", place, master) for place in places]
        for worker in workers:
            worker.says("Successfully registered with master")
        builder = SparkSession.builder.master(master).appName("queries")
        for name, value in SETTINGS.items():
            builder = builder.config(name, value)
        spark = builder.getOrCreate()
        spark.sparkContext.setLogLevel("ERROR")
        stack.callback(spark.stop)
        yield spark
