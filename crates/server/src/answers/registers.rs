//! Registers: all, or one.

use tracewire_packets::family::register::{RegisterBytes, RegisterRequest};
use tracewire_packets::{Failure, Reply};

use super::{Debuggee, FAILED, done};

pub(super) fn answer(of: &mut dyn Debuggee, request: &RegisterRequest) -> Reply {
    let (start, bytes) = match request {
        RegisterRequest::ReadAll => {
            return of.registers().map_or(FAILED, Reply::Registers);
        }
        RegisterRequest::Read { register } => {
            let Some(place) = of.register_place(*register) else {
                return Reply::Error(Failure::text("There is no such register"));
            };
            let Some(RegisterBytes(all)) = of.registers() else {
                return FAILED;
            };
            let size = place.len();
            let bytes = all
                .get(place)
                .map_or_else(|| vec![None; size], <[_]>::to_vec);
            return Reply::Registers(RegisterBytes(bytes));
        }
        RegisterRequest::WriteAll { bytes } => (0, &bytes.0),
        RegisterRequest::Write { register, bytes } => match of.register_place(*register) {
            Some(place) if place.len() == bytes.0.len() => (place.start, &bytes.0),
            _ => return FAILED,
        },
    };
    match of.writable() {
        Err(refusal) => Reply::Error(Failure::text(refusal)),
        Ok(writable) => done(writable.write_registers(start, bytes)),
    }
}
