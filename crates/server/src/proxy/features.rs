//! What is announced to a client: what the stub announces, and tracepoints.

use tracewire_packets::family::features::{Feature, FeatureList, FeatureValue};

use crate::trace::{announce_frames, announce_runs};

/// What the stub may announce and the client does not get: the client evaluates conditions by itself, so that a breakpoint where a
/// tracepoint is stops for both; it stops all threads; and it agrees on acknowledgements with this server.
const NOT_PASSED: [&str; 4] = [
    "QNonStop",
    "ConditionalBreakpoints",
    "BreakpointCommands",
    "QStartNoAckMode",
];

/// What is announced for a stub that announces this, with tracepoints of this server's or without.
pub(super) fn merged(of_stub: &FeatureList, has_tracepoints: bool) -> FeatureList {
    let mut merged = FeatureList::default();
    merged.announce("QStartNoAckMode");
    let mut ours = FeatureList::default();
    if has_tracepoints {
        announce_frames(&mut ours, false);
        announce_runs(&mut ours, true);
    }
    let is_passed = |feature: &&Feature| {
        let name = feature.name.as_str();
        let is_withheld = match name {
            "QStartNoAckMode" => true,
            name => has_tracepoints && NOT_PASSED.contains(&name),
        };
        // Static tracepoints are those of the stub's own.
        let is_its_own =
            has_tracepoints && matches!(name, "StaticTracepoints" | "qXfer:statictrace:read");
        !is_withheld && !is_its_own && ours.get(name).is_none()
    };
    merged.0.extend(of_stub.0.iter().filter(is_passed).cloned());
    merged.0.extend(ours.0);
    merged
}

/// What `qSupported` says to the stub: it may report breakpoints as such, and describe registers.
pub(super) fn for_stub(client: &FeatureList) -> FeatureList {
    let mut features = client.clone();
    for name in ["swbreak", "hwbreak"] {
        if !features.supports(name) {
            features.0.retain(|feature| feature.name != name);
            features.announce(name);
        }
    }
    if features.get("xmlRegisters").is_none() {
        features.0.push(Feature {
            name: "xmlRegisters".to_owned(),
            value: FeatureValue::Value("i386".to_owned()),
        });
    }
    features
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(text: &str) -> FeatureList {
        use tracewire_packets::{Reply, ReplyKind};
        match Reply::parse(ReplyKind::Features, text.as_bytes()) {
            Ok(Reply::Features(features)) => features,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_stubs_features_stay_and_tracepoints_are_added() {
        let stub = list(
            "PacketSize=1000;qXfer:features:read+;QNonStop+;ConditionalBreakpoints+;multiprocess+;QTBuffer:size-",
        );
        let merged = merged(&stub, true);
        for name in [
            "qXfer:features:read",
            "multiprocess",
            "ConditionalTracepoints",
            "QTBuffer:size",
            "QStartNoAckMode",
        ] {
            assert!(merged.supports(name), "{name}");
        }
        assert_eq!(merged.packet_size(), Some(0x1000));
        for name in ["QNonStop", "ConditionalBreakpoints"] {
            assert!(merged.get(name).is_none(), "{name}");
        }
        let names: Vec<_> = merged.0.iter().map(|feature| &feature.name).collect();
        let mut once = names.clone();
        once.sort();
        once.dedup();
        assert_eq!(once.len(), names.len(), "{names:?}");
    }

    #[test]
    fn a_stub_with_tracepoints_announces_its_own() {
        let stub = list("PacketSize=1000;QNonStop+;InstallInTrace+");
        let merged = merged(&stub, false);
        assert!(merged.supports("QNonStop") && merged.supports("InstallInTrace"));
        assert!(merged.get("DisconnectedTracing").is_none());
    }

    #[test]
    fn the_stub_is_to_report_breakpoints_as_such() {
        let features = for_stub(&list("multiprocess+;swbreak-"));
        assert!(features.supports("swbreak") && features.supports("hwbreak"));
        assert!(features.supports("multiprocess"));
        assert!(features.get("xmlRegisters").is_some());
    }
}
