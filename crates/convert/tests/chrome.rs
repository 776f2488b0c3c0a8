//! The Chrome trace follows the format, and a hit is an event on its thread's track.

mod files;

use std::fs;
use std::process::Command;

use serde_json::{Value, json};
use tracewire_convert::chrome;
use tracewire_model::{Address, ByteOrder, VariableNumber};
use tracewire_tracefile::TraceFile;

/// The parts of Chromium's "Trace Event Format" that apply: which events there are, and what each must have.
const SCHEMA: &str = r##"{
  "$schema": "http://json-schema.org/draft-07/schema#",
  "type": "object",
  "required": ["traceEvents"],
  "properties": {
    "displayTimeUnit": { "enum": ["ms", "ns"] },
    "otherData": { "type": "object", "additionalProperties": { "type": "string" } },
    "traceEvents": { "type": "array", "items": { "oneOf": [
      { "$ref": "#/definitions/instant" }, { "$ref": "#/definitions/process" }, { "$ref": "#/definitions/thread" }
    ] } }
  },
  "additionalProperties": false,
  "definitions": {
    "id": { "type": "integer", "minimum": 0 },
    "named": {
      "type": "object", "required": ["name"], "additionalProperties": false,
      "properties": { "name": { "type": "string", "minLength": 1 } }
    },
    "process": {
      "type": "object", "required": ["ph", "name", "pid", "args"], "additionalProperties": false,
      "properties": {
        "ph": { "const": "M" }, "name": { "const": "process_name" },
        "pid": { "$ref": "#/definitions/id" }, "args": { "$ref": "#/definitions/named" }
      }
    },
    "thread": {
      "type": "object", "required": ["ph", "name", "pid", "tid", "args"], "additionalProperties": false,
      "properties": {
        "ph": { "const": "M" }, "name": { "const": "thread_name" },
        "pid": { "$ref": "#/definitions/id" }, "tid": { "$ref": "#/definitions/id" },
        "args": { "$ref": "#/definitions/named" }
      }
    },
    "instant": {
      "type": "object", "required": ["ph", "s", "name", "cat", "ts", "pid", "tid", "args"],
      "additionalProperties": false,
      "properties": {
        "ph": { "const": "i" }, "s": { "enum": ["g", "p", "t"] },
        "name": { "type": "string" }, "cat": { "type": "string" },
        "ts": { "type": "number", "minimum": 0 },
        "pid": { "$ref": "#/definitions/id" }, "tid": { "$ref": "#/definitions/id" },
        "args": { "type": "object" }
      }
    }
  }
}"##;

const VALIDATE: &str = "
import json, sys, jsonschema
schema = json.load(open(sys.argv[1]))
jsonschema.Draft7Validator.check_schema(schema)
jsonschema.Draft7Validator(schema).validate(json.load(open(sys.argv[2])))
";

/// Converted, and checked by an independent reader of JSON schemas.
fn convert(file: &TraceFile) -> Value {
    let mut bytes = Vec::new();
    chrome::write(file, &mut bytes).expect("written");
    let folder = tempfile::tempdir().expect("a folder");
    let (schema, trace) = (folder.path().join("schema"), folder.path().join("trace"));
    fs::write(&schema, SCHEMA).expect("written");
    fs::write(&trace, &bytes).expect("written");
    files::run(
        Command::new("/usr/bin/python3")
            .args(["-c", VALIDATE])
            .args([schema, trace]),
    );
    serde_json::from_slice(&bytes).expect("JSON")
}

#[test]
fn gdb_s_sample_follows_the_schema() {
    let trace = convert(&files::sample());
    let hits: Vec<_> = trace["traceEvents"]
        .as_array()
        .expect("events")
        .iter()
        .filter(|event| event["ph"] == "i")
        .collect();
    assert_eq!(hits.len(), 24);
    assert_eq!(hits[0]["args"]["registers"]["rip"], "0x555555555158");
    assert_eq!(hits[0]["args"]["variables"]["hits"], 1);
    assert_eq!(hits[1]["cat"], "step");
    assert_eq!(hits[6]["name"], "sample.c:14");
    assert_eq!(hits[6]["ts"], 1_465_540_656);
    assert_eq!(trace["otherData"]["notes"], "first run");
    for sample in files::samples() {
        convert(&files::read(&sample));
    }
}

#[test]
fn each_thread_has_its_track() {
    let parts = files::parts(
        ByteOrder::Big,
        vec![files::definition(7, 0x1000, "work \"quoted\"")],
        files::clock(),
        "0;tstop::0",
    );
    let hit = |time, thread| {
        move |frame: &mut tracewire_tracefile::FrameEncoder<'_>| {
            frame.variable(VariableNumber(1), time);
            frame.variable(VariableNumber(2), thread);
            frame.memory(Address(16), &[1, 2]);
        }
    };
    let bytes = files::build(
        &parts,
        ByteOrder::Big,
        &[
            (7, &hit(100, 11)),
            (7, &hit(150, 12)),
            (7, &hit(200, 11)),
            (7, &|_| {}),
        ],
    );
    let trace = convert(&files::read(&bytes));
    let events = trace["traceEvents"].as_array().expect("events");
    let of = |phase: &'static str| events.iter().filter(move |event| event["ph"] == phase);
    let tracks: Vec<_> = of("i")
        .map(|event| (event["tid"].clone(), event["ts"].clone()))
        .collect();
    assert_eq!(
        json!(tracks),
        json!([[11, 100], [12, 150], [11, 200], [0, 200]])
    );
    let named: Vec<_> = of("M").filter(|event| !event["tid"].is_null()).collect();
    assert_eq!(named.len(), 3);
    assert_eq!(named[0]["args"]["name"], "thread 11");
    assert_eq!(
        of("i").next().map(|event| &event["args"]["memory"]),
        Some(&json!([{ "address": "0x10", "bytes": "0102" }]))
    );
}
