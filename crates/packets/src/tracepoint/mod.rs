//! Tracepoint packets (the manual's section of that name, and what GDB 13 does beside it).

mod define;
mod frame;
mod frame_info;
mod marker;
mod run;
#[cfg(test)]
mod samples;

pub(crate) use define::print_record;
pub use define::{ActionPacket, Definition, Ranges, SourceString};
pub use frame::{FrameSelection, SelectedFrame};
pub use frame_info::{FrameInfo, FrameInfoError, FramePart};
pub use marker::{Marker, MarkerList};
pub use run::{BufferSize, Notes};

use tracewire_model::{Address, TracepointNumber, VariableDefinition, VariableNumber};

use crate::field::{HexBytes, WideAddress};
use crate::packets::packets;
use crate::reply::Failure;

packets! {
    /// Requests about trace runs and what they left.
    pub enum TraceRequest {
        /// `QTinit`: forget all tracepoints, actions, frames and variables' values.
        Initialize = ["QTinit"] => "forget all tracepoints and trace frames"

        /// `QTDP:-`: actions of the tracepoint that the last `QTDP` announced more for.
        Actions {
            /// The tracepoint, and its actions.
            actions: ActionPacket,
        } = ["QTDP:-" actions] => { actions.explain() }

        /// `QTDP`: define a tracepoint. The stub may ask `qRelocInsn` questions before it answers.
        Define {
            /// The tracepoint.
            definition: Definition,
        } = ["QTDP:" definition] => { definition.explain() }

        /// `QTDPsrc`: a source string of a tracepoint, or a part of one.
        Source {
            /// The string.
            source: SourceString,
        } = ["QTDPsrc:" source] => { source.explain() }

        /// `QTDV`: create a trace state variable.
        Variable {
            /// The variable.
            variable: VariableDefinition,
        } = ["QTDV:" variable] => { format!(
            "create trace state variable ${} (number {}) with initial value {}",
            variable.name, variable.number, variable.initial,
        ) }

        /// `QTro`: memory that never changes, which a selected frame may answer from the program.
        ReadOnly {
            /// The ranges, at link-time addresses for a position-independent program (GDB 13).
            ranges: Ranges,
        } = ["QTro" ranges] => { format!("take {} ranges of memory to be read-only", ranges.0.len()) }

        /// `QTEnable`: enable a tracepoint, during a run too.
        Enable {
            /// Which.
            number: TracepointNumber,
            /// Which of its addresses.
            address: WideAddress,
        } = ["QTEnable:" number ":" address] => "enable tracepoint {number} at {address}"

        /// `QTDisable`: disable a tracepoint, during a run too.
        Disable {
            /// Which.
            number: TracepointNumber,
            /// Which of its addresses.
            address: WideAddress,
        } = ["QTDisable:" number ":" address] => "disable tracepoint {number} at {address}"

        /// `QTStart`: start the run. The stub may ask `qRelocInsn` questions before it answers.
        Start = ["QTStart"] => "start the trace run"

        /// `QTStop`: stop the run.
        Stop = ["QTStop"] => "stop the trace run"

        /// `QTDisconnected`: whether the run goes on without GDB.
        Disconnected {
            /// Whether it does.
            on: bool,
        } = ["QTDisconnected:" on] => { match on {
            true => "let the trace run go on when GDB goes away".to_owned(),
            false => "stop the trace run when GDB goes away".to_owned(),
        } }

        /// `QTBuffer:circular`: whether oldest frames make room for new ones.
        Circular {
            /// Whether they do.
            on: bool,
        } = ["QTBuffer:circular:" on] => { match on {
            true => "make the trace buffer circular".to_owned(),
            false => "make the trace buffer linear".to_owned(),
        } }

        /// `QTBuffer:size`: the size of the trace buffer.
        BufferSize {
            /// Which size.
            size: BufferSize,
        } = ["QTBuffer:size:" size] => { size.explain() }

        /// `QTNotes`: the user's name and notes.
        Notes {
            /// The given notes; others are unchanged.
            notes: Notes,
        } = ["QTNotes:" notes] => { notes.explain() }

        /// `QTSave`: write a trace file on the target's system.
        Save {
            /// Its name.
            file: HexBytes,
        } = ["QTSave:" file] => "save the trace to the file {file} on the target's system"

        /// `QTFrame`: select a frame, or none.
        SelectFrame {
            /// Which.
            frame: FrameSelection,
        } = ["QTFrame:" frame] => { frame.explain() }

        /// `qTStatus`: the state of the run.
        Status = ["qTStatus"] => "ask for the status of the trace run"

        /// `qTP`: how often a tracepoint was hit.
        Usage {
            /// Which.
            number: TracepointNumber,
            /// Which of its addresses.
            address: Address,
        } = ["qTP:" number ":" address] => "ask how often tracepoint {number} at {address} was hit"

        /// `qTV`: a trace state variable's value, now or in the selected frame.
        VariableValue {
            /// Which.
            number: VariableNumber,
        } = ["qTV:" number] => "ask for the value of trace state variable {number}"

        /// `qTfP`: the first record of the tracepoints the target has.
        FirstPiece = ["qTfP"] => "list the target's tracepoints"

        /// `qTsP`: the next one.
        MorePieces = ["qTsP"] => "list more of the target's tracepoints"

        /// `qTfV`: the first of the variables the target has.
        FirstVariable = ["qTfV"] => "list the target's trace state variables"

        /// `qTsV`: the next one.
        MoreVariables = ["qTsV"] => "list more of the target's trace state variables"

        /// `qTfSTM`: the first markers of static tracepoints.
        FirstMarkers = ["qTfSTM"] => "list static tracepoint markers"

        /// `qTsSTM`: more of them.
        MoreMarkers = ["qTsSTM"] => "list more static tracepoint markers"

        /// `qTSTMat`: the markers at an address.
        MarkersAt {
            /// Which.
            address: Address,
        } = ["qTSTMat:" address] => "list the static tracepoint markers at {address}"

        /// `qTBuffer`: bytes of the trace buffer, as in a trace file.
        Buffer {
            /// From which byte on.
            offset: u64,
            /// The most bytes; GDB requests 2000.
            length: u64,
        } = ["qTBuffer:" offset "," length] => "read {length} bytes of the trace buffer from {offset}"

        /// `qTMinFTPILen`: the shortest instruction that a fast tracepoint can displace.
        MinimumFastLength = ["qTMinFTPILen"] => "ask for the shortest instruction a fast tracepoint can be at"

        /// `qRelocInsn`, from GDB: the instruction that the stub asked about has been moved.
        Relocated {
            /// How many bytes it takes at its new place.
            size: u64,
        } = ["qRelocInsn:" size] => "the moved instruction takes {size} bytes"

        /// `E`, from GDB: the instruction cannot be moved.
        RelocationFailed {
            /// GDB's failure; it always sends `E01`, and shows its reason to its user.
            failure: Failure,
        } = ["E" failure] => "the instruction cannot be moved: {failure}"
    }
}
