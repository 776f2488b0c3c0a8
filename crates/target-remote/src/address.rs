//! Where the stub is.

use tracewire_packets::{AddressError, ConnectionAddress};

/// Reads where a stub is.
///
/// # Errors
/// When the text is no address, or is one that nothing can be at: port 0, or a Unix socket without a path.
pub fn upstream_address(text: &str) -> Result<ConnectionAddress, AddressError> {
    let address = text.parse()?;
    match &address {
        ConnectionAddress::Tcp { port: 0, .. } => {}
        ConnectionAddress::Unix(path) if path.as_os_str().is_empty() => {}
        _ => return Ok(address),
    }
    Err(AddressError {
        text: text.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::upstream_address;

    #[test]
    fn what_nothing_can_be_at_is_refused() {
        for text in [":1234", "tcp:[::1]:80", "unix:socket", "./socket", "-"] {
            assert!(upstream_address(text).is_ok(), "{text}");
        }
        for text in ["", "1234", "host:port", ":0", ":70000", "unix:"] {
            assert!(upstream_address(text).is_err(), "{text}");
        }
    }
}
