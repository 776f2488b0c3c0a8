//! The location of a variable, as a DWARF expression with everything needed to evaluate it.

use std::sync::Arc;

use gimli::{Encoding, EndianReader, RunTimeEndian, UnitOffset};
use tracewire_mapped_file::SharedBytes;
use tracewire_model::Address;

use crate::module::ModuleId;

/// The bytes that a DWARF operation refers to.
pub type ExpressionBytes = EndianReader<RunTimeEndian, SharedBytes>;

/// An operation of a DWARF expression.
pub type ExpressionOperation = gimli::Operation<ExpressionBytes, usize>;

/// A DWARF expression, with the module and unit it was read from.
#[derive(Clone, Debug)]
pub struct LocationExpression {
    pub(crate) bytes: ExpressionBytes,
    pub(crate) encoding: Encoding,
    pub(crate) module: ModuleId,
    /// Which unit of the module; `None` for call frame information.
    pub(crate) unit: Option<usize>,
    /// The bias to add to a link-time address.
    pub(crate) bias: u64,
    /// The unit's `.debug_addr` entries, for the indexed forms: (section bytes, base).
    pub(crate) addresses: Option<(gimli::DebugAddr<ExpressionBytes>, gimli::DebugAddrBase)>,
}

impl LocationExpression {
    /// The unit's encoding: address size, DWARF format and version.
    #[must_use]
    pub const fn encoding(&self) -> Encoding {
        self.encoding
    }

    /// The module it was read from.
    #[must_use]
    pub const fn module(&self) -> ModuleId {
        self.module
    }

    /// The operations, each with the offset of its first byte (the targets of `DW_OP_bra` and `DW_OP_skip` count bytes from the end
    /// of their own operation). Addresses include the load bias. The indexed forms (`DW_OP_addrx`, `DW_OP_constx`) are replaced by
    /// their values.
    ///
    /// # Errors
    /// The text describes the damage.
    pub fn operations(&self) -> Result<Vec<(usize, ExpressionOperation)>, String> {
        self.parse(self.bytes.clone())
    }

    /// The operations of the expression inside a `DW_OP_entry_value`, in the form of [`operations`](Self::operations).
    ///
    /// # Errors
    /// The text describes the damage.
    pub fn nested_operations(
        &self,
        bytes: &ExpressionBytes,
    ) -> Result<Vec<(usize, ExpressionOperation)>, String> {
        self.parse(bytes.clone())
    }

    fn parse(&self, bytes: ExpressionBytes) -> Result<Vec<(usize, ExpressionOperation)>, String> {
        use gimli::{Operation, Reader};
        let start = bytes.clone();
        let mut rest = gimli::Expression(bytes).operations(self.encoding);
        let mut operations = Vec::new();
        loop {
            let offset = rest.offset_from(&gimli::Expression(start.clone()));
            let operation = match rest.next() {
                Ok(Some(operation)) => operation,
                Ok(None) => return Ok(operations),
                Err(error) => return Err(format!("DWARF expression: {error} at byte {offset}")),
            };
            let operation = match operation {
                Operation::Address { address } => Operation::Address {
                    address: self.biased(address),
                },
                Operation::AddressIndex { index } => Operation::Address {
                    address: self.biased(self.indexed(index)?),
                },
                Operation::ConstantIndex { index } => Operation::UnsignedConstant {
                    value: self.indexed(index)?,
                },
                other => other,
            };
            operations.push((offset, operation));
            // One operation is at least one byte: the count is bounded by the section. An expression this long
            // is hostile all the same.
            if operations.len() > 4096 {
                return Err(format!(
                    "DWARF expression of more than 4096 operations ({} bytes)",
                    start.len()
                ));
            }
        }
    }

    fn biased(&self, address: u64) -> u64 {
        let biased = address.wrapping_add(self.bias);
        if self.encoding.address_size == 4 {
            biased & 0xffff_ffff
        } else {
            biased
        }
    }

    fn indexed(&self, index: gimli::DebugAddrIndex) -> Result<u64, String> {
        let Some((addresses, base)) = &self.addresses else {
            return Err("indexed address outside a unit".to_owned());
        };
        addresses
            .get_address(self.encoding.address_size, *base, index)
            .map_err(|error| format!("indexed address {}: {error}", index.0))
    }
}

/// Where a DWARF expression's typed operation (`DW_OP_convert`, `DW_OP_regval_type`, …) finds its base type:
/// see [`crate::Symbols::base_type_at`].
pub type BaseTypeOffset = UnitOffset<usize>;

/// Where a variable is, at one pc.
#[derive(Clone, Debug)]
pub enum VariableLocation {
    /// It has no value at this pc: the compiler left none.
    OptimizedOut,
    /// It is a constant: its value's bytes, in target order, as many as its type has.
    Constant(Arc<[u8]>),
    /// It is in memory, at an address that is the same for the whole run.
    Static(Address),
    /// It is in the thread's storage of a module.
    ThreadLocal(ThreadLocalOffset),
    /// To be worked out from the frame's registers and memory. Never a lone address, which is
    /// [`VariableLocation::Static`].
    Expression(LocationExpression),
    /// The debug information is damaged or of an unknown kind; the text describes it.
    Unknown(String),
}

/// Where a thread-local variable is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ThreadLocalOffset {
    /// In the main program: this far from the thread pointer (`fs_base` on x86-64, `gs_base` on i386), wrapping.
    FromThreadPointer(i64),
    /// In a library: the offset in the library's block, whose place only the dynamic linker knows.
    InLibrary(u64),
}
