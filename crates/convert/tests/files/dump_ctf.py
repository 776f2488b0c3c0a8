# Prints each event of a CTF trace as one line of JSON, as babeltrace2 reads it, in babeltrace2's order.
import json
import sys

import bt2


def plain(field):
    if isinstance(field, bt2._StructureFieldConst):
        return {name: plain(value) for name, value in field.items()}
    if isinstance(field, bt2._ArrayFieldConst):
        return [plain(value) for value in field]
    if isinstance(field, bt2._StringFieldConst):
        return str(field)
    if isinstance(field, bt2._RealFieldConst):
        return float(field)
    return int(field)


for message in bt2.TraceCollectionMessageIterator(sys.argv[1]):
    if type(message) is bt2._DiscardedEventsMessageConst:
        print(json.dumps({"discarded": message.count}))
    if type(message) is bt2._PacketBeginningMessageConst:
        # What the reader itself understands of a packet's context is not among its fields.
        context = message.packet.context_field
        print(
            json.dumps(
                {
                    "packet": plain(context) if context is not None else {},
                    "nanoseconds": message.default_clock_snapshot.ns_from_origin,
                }
            )
        )
    if type(message) is bt2._PacketEndMessageConst:
        print(json.dumps({"packet_end": message.default_clock_snapshot.ns_from_origin}))
    if type(message) is bt2._EventMessageConst:
        event = message.event
        print(
            json.dumps(
                {
                    "name": event.name,
                    "nanoseconds": message.default_clock_snapshot.ns_from_origin,
                    "fields": plain(event.payload_field),
                }
            )
        )
