//! The used messages of Perfetto's protocol buffers, with the used fields.
//!
//! The numbers are those of `protos/perfetto/trace` of Perfetto. A test decodes the output with the descriptors of the Python
//! package `perfetto`.

/// `TracePacket`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct TracePacket {
    /// On the clock of the boot time, in nanoseconds.
    #[prost(uint64, optional, tag = "8")]
    pub(super) timestamp: Option<u64>,
    #[prost(uint32, optional, tag = "10")]
    pub(super) trusted_packet_sequence_id: Option<u32>,
    #[prost(message, optional, tag = "12")]
    pub(super) interned_data: Option<InternedData>,
    #[prost(uint32, optional, tag = "13")]
    pub(super) sequence_flags: Option<u32>,
    #[prost(bool, optional, tag = "87")]
    pub(super) first_packet_on_sequence: Option<bool>,
    #[prost(oneof = "Data", tags = "6, 11, 60")]
    pub(super) data: Option<Data>,
}

/// `TracePacket.data`.
#[derive(Clone, PartialEq, prost::Oneof)]
pub(super) enum Data {
    #[prost(message, tag = "6")]
    ClockSnapshot(ClockSnapshot),
    #[prost(message, tag = "11")]
    TrackEvent(TrackEvent),
    #[prost(message, tag = "60")]
    TrackDescriptor(TrackDescriptor),
}

/// `TracePacket.SequenceFlags`: what was interned before is forgotten.
pub(super) const INCREMENTAL_STATE_CLEARED: u32 = 1;

/// `TracePacket.SequenceFlags`: the packet needs what was interned before.
pub(super) const NEEDS_INCREMENTAL_STATE: u32 = 2;

/// `ClockSnapshot`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct ClockSnapshot {
    #[prost(message, repeated, tag = "1")]
    pub(super) clocks: Vec<Clock>,
    #[prost(int32, optional, tag = "2")]
    pub(super) primary_trace_clock: Option<i32>,
}

/// `ClockSnapshot.Clock`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Clock {
    #[prost(uint32, optional, tag = "1")]
    pub(super) clock_id: Option<u32>,
    /// In nanoseconds.
    #[prost(uint64, optional, tag = "2")]
    pub(super) timestamp: Option<u64>,
}

/// `BuiltinClock`: the time of day.
pub(super) const REALTIME: u32 = 1;

/// `BuiltinClock`: the time since the machine was started, which is the clock of packets that name none.
pub(super) const BOOTTIME: u32 = 6;

/// `TrackDescriptor`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct TrackDescriptor {
    #[prost(uint64, optional, tag = "1")]
    pub(super) uuid: Option<u64>,
    #[prost(string, optional, tag = "2")]
    pub(super) name: Option<String>,
    #[prost(message, optional, tag = "3")]
    pub(super) process: Option<ProcessDescriptor>,
    #[prost(message, optional, tag = "4")]
    pub(super) thread: Option<ThreadDescriptor>,
    #[prost(uint64, optional, tag = "5")]
    pub(super) parent_uuid: Option<u64>,
    #[prost(message, optional, tag = "8")]
    pub(super) counter: Option<CounterDescriptor>,
}

/// `ProcessDescriptor`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct ProcessDescriptor {
    #[prost(int32, optional, tag = "1")]
    pub(super) pid: Option<i32>,
    #[prost(string, optional, tag = "6")]
    pub(super) process_name: Option<String>,
}

/// `ThreadDescriptor`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct ThreadDescriptor {
    #[prost(int32, optional, tag = "1")]
    pub(super) pid: Option<i32>,
    #[prost(int64, optional, tag = "2")]
    pub(super) tid: Option<i64>,
}

/// `CounterDescriptor`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct CounterDescriptor {
    #[prost(int32, optional, tag = "3")]
    pub(super) unit: Option<i32>,
}

/// `CounterDescriptor.Unit`.
pub(super) const UNIT_TIME_NS: i32 = 1;

/// `TrackEvent`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct TrackEvent {
    #[prost(uint64, repeated, packed = "false", tag = "3")]
    pub(super) category_iids: Vec<u64>,
    #[prost(message, repeated, tag = "4")]
    pub(super) debug_annotations: Vec<DebugAnnotation>,
    #[prost(int32, optional, tag = "9")]
    pub(super) r#type: Option<i32>,
    #[prost(uint64, optional, tag = "10")]
    pub(super) name_iid: Option<u64>,
    #[prost(uint64, optional, tag = "11")]
    pub(super) track_uuid: Option<u64>,
    #[prost(fixed64, repeated, packed = "false", tag = "47")]
    pub(super) flow_ids: Vec<u64>,
    #[prost(uint64, optional, tag = "56")]
    pub(super) callstack_iid: Option<u64>,
    #[prost(oneof = "CounterValue", tags = "30, 44")]
    pub(super) counter_value: Option<CounterValue>,
}

/// `TrackEvent.counter_value_field`.
#[derive(Clone, Copy, PartialEq, prost::Oneof)]
pub(super) enum CounterValue {
    #[prost(int64, tag = "30")]
    Integer(i64),
    #[prost(double, tag = "44")]
    Double(f64),
}

/// `TrackEvent.Type`.
pub(super) const SLICE_BEGIN: i32 = 1;
/// `TrackEvent.Type`.
pub(super) const SLICE_END: i32 = 2;
/// `TrackEvent.Type`.
pub(super) const INSTANT: i32 = 3;
/// `TrackEvent.Type`.
pub(super) const COUNTER: i32 = 4;

/// `DebugAnnotation`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct DebugAnnotation {
    #[prost(uint64, optional, tag = "1")]
    pub(super) name_iid: Option<u64>,
    #[prost(oneof = "AnnotationValue", tags = "2, 3, 4, 5, 6, 7, 8")]
    pub(super) value: Option<AnnotationValue>,
    #[prost(message, repeated, tag = "11")]
    pub(super) dict_entries: Vec<DebugAnnotation>,
    #[prost(message, repeated, tag = "12")]
    pub(super) array_values: Vec<DebugAnnotation>,
}

/// `DebugAnnotation.value`.
#[derive(Clone, PartialEq, prost::Oneof)]
pub(super) enum AnnotationValue {
    #[prost(bool, tag = "2")]
    Bool(bool),
    #[prost(uint64, tag = "3")]
    Unsigned(u64),
    #[prost(int64, tag = "4")]
    Integer(i64),
    #[prost(double, tag = "5")]
    Double(f64),
    #[prost(string, tag = "6")]
    String(String),
    #[prost(uint64, tag = "7")]
    Pointer(u64),
    #[prost(message, tag = "8")]
    Nested(NestedValue),
}

/// `DebugAnnotation.NestedValue`, for what has no parts: without any, the other fields say nothing.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub(super) struct NestedValue {
    #[prost(int32, optional, tag = "1")]
    pub(super) nested_type: Option<i32>,
}

/// `DebugAnnotation.NestedValue.NestedType`.
pub(super) const DICT: i32 = 1;
/// `DebugAnnotation.NestedValue.NestedType`.
pub(super) const ARRAY: i32 = 2;

/// `InternedData`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct InternedData {
    #[prost(message, repeated, tag = "1")]
    pub(super) event_categories: Vec<InternedName>,
    #[prost(message, repeated, tag = "2")]
    pub(super) event_names: Vec<InternedName>,
    #[prost(message, repeated, tag = "3")]
    pub(super) debug_annotation_names: Vec<InternedName>,
    #[prost(message, repeated, tag = "5")]
    pub(super) function_names: Vec<InternedString>,
    #[prost(message, repeated, tag = "6")]
    pub(super) frames: Vec<Frame>,
    #[prost(message, repeated, tag = "7")]
    pub(super) callstacks: Vec<Callstack>,
    #[prost(message, repeated, tag = "16")]
    pub(super) build_ids: Vec<InternedString>,
    #[prost(message, repeated, tag = "17")]
    pub(super) mapping_paths: Vec<InternedString>,
    #[prost(message, repeated, tag = "18")]
    pub(super) source_paths: Vec<InternedString>,
    #[prost(message, repeated, tag = "19")]
    pub(super) mappings: Vec<Mapping>,
}

/// `EventCategory`, `EventName` and `DebugAnnotationName`, which have the same fields.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct InternedName {
    #[prost(uint64, optional, tag = "1")]
    pub(super) iid: Option<u64>,
    #[prost(string, optional, tag = "2")]
    pub(super) name: Option<String>,
}

/// `InternedString`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct InternedString {
    #[prost(uint64, optional, tag = "1")]
    pub(super) iid: Option<u64>,
    #[prost(bytes = "vec", optional, tag = "2")]
    pub(super) str: Option<Vec<u8>>,
}

/// `Mapping`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Mapping {
    #[prost(uint64, optional, tag = "1")]
    pub(super) iid: Option<u64>,
    #[prost(uint64, optional, tag = "2")]
    pub(super) build_id: Option<u64>,
    #[prost(uint64, optional, tag = "4")]
    pub(super) start: Option<u64>,
    #[prost(uint64, optional, tag = "5")]
    pub(super) end: Option<u64>,
    #[prost(uint64, optional, tag = "6")]
    pub(super) load_bias: Option<u64>,
    #[prost(uint64, repeated, packed = "false", tag = "7")]
    pub(super) path_string_ids: Vec<u64>,
}

/// `Frame`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Frame {
    #[prost(uint64, optional, tag = "1")]
    pub(super) iid: Option<u64>,
    #[prost(uint64, optional, tag = "2")]
    pub(super) function_name_id: Option<u64>,
    #[prost(uint64, optional, tag = "3")]
    pub(super) mapping_id: Option<u64>,
    #[prost(uint64, optional, tag = "4")]
    pub(super) rel_pc: Option<u64>,
    #[prost(uint64, optional, tag = "5")]
    pub(super) source_path_iid: Option<u64>,
    #[prost(uint32, optional, tag = "6")]
    pub(super) line_number: Option<u32>,
}

/// `Callstack`: the outermost frame first.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Callstack {
    #[prost(uint64, optional, tag = "1")]
    pub(super) iid: Option<u64>,
    #[prost(uint64, repeated, packed = "false", tag = "2")]
    pub(super) frame_ids: Vec<u64>,
}
