//! Markers of static tracepoints: the replies to qTfSTM, qTsSTM and qTSTMat.

use tracewire_model::Address;

use crate::field::{Field, HexBytes};
use tracewire_model::text::{Expected, Scanner};

/// A marker that the program's authors left.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Marker {
    /// Where it is.
    pub address: Address,
    /// Its name, what `strace -m` takes.
    pub id: HexBytes,
    /// Further information, such as its arguments.
    pub extra: HexBytes,
}

/// Markers: `m`, then `address:id:extra` each with a `,` between them. The end of the list is `l`, which is
/// [`Reply::End`](crate::Reply::End).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MarkerList(pub Vec<Marker>);

impl Field for MarkerList {
    fn scan(scanner: &mut Scanner<'_>) -> Result<Self, Expected> {
        scanner.literal("m")?;
        let mut markers = Vec::new();
        loop {
            let address = Field::scan(scanner)?;
            scanner.literal(":")?;
            let id = Field::scan(scanner)?;
            scanner.literal(":")?;
            markers.push(Marker {
                address,
                id,
                extra: Field::scan(scanner)?,
            });
            if !scanner.take(",") {
                return Ok(Self(markers));
            }
        }
    }

    fn print(&self, out: &mut Vec<u8>) {
        for (place, marker) in self.0.iter().enumerate() {
            out.push(if place == 0 { b'm' } else { b',' });
            marker.address.print(out);
            out.push(b':');
            marker.id.print(out);
            out.push(b':');
            marker.extra.print(out);
        }
    }
}
