//! Cpus, kernel modules, sockets, and the tables of System V's interprocess communication.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::processes::command;
use super::{Table, names};

fn lines(path: &str) -> Vec<String> {
    let bytes = fs::read(path).unwrap_or_default();
    String::from_utf8_lossy(&bytes)
        .lines()
        .map(str::to_owned)
        .collect()
}

pub(super) fn cpus(table: &mut Table) {
    let mut cpu: Vec<(String, String)> = Vec::new();
    let mut tell = |cpu: &mut Vec<(String, String)>| {
        let columns: Vec<(&str, &str)> = cpu
            .iter()
            .map(|(key, value)| (key.as_str(), value.as_str()))
            .collect();
        if !columns.is_empty() {
            table.row(&columns);
        }
        cpu.clear();
    };
    for line in lines("/proc/cpuinfo") {
        let Some((key, value)) = line.split_once(':') else {
            continue;
        };
        let key = key.trim();
        if key == "processor" {
            tell(&mut cpu);
        }
        cpu.push((key.to_owned(), value.to_owned()));
    }
    tell(&mut cpu);
}

pub(super) fn modules(table: &mut Table) {
    for line in lines("/proc/modules") {
        let mut fields = line.split_whitespace();
        let mut next = || fields.next().unwrap_or_default();
        let (name, size, uses, dependencies, status) = (next(), next(), next(), next(), next());
        let address = next().trim_start_matches("0x").trim_start_matches('0');
        table.row(&[
            ("name", name),
            ("size", size),
            ("num uses", uses),
            ("dependencies", dependencies),
            ("status", status),
            ("address", if address.is_empty() { "0" } else { address }),
        ]);
    }
}

/// The rows of a table of `/proc/sysvipc` with this many fields, without its head.
fn ipc(name: &str, count: usize) -> impl Iterator<Item = Vec<String>> {
    lines(&format!("/proc/sysvipc/{name}"))
        .into_iter()
        .skip(1)
        .map(|line| line.split_whitespace().map(str::to_owned).collect())
        .filter(move |fields: &Vec<String>| fields.len() >= count)
}

/// How a field of such a table is printed.
#[derive(Clone, Copy)]
enum Form {
    AsIs,
    User,
    Group,
    Command,
    Time,
}

fn printed(field: &str, form: Form) -> String {
    let number = || field.parse().unwrap_or(0);
    match form {
        Form::AsIs => field.to_owned(),
        Form::User => names::user(number()),
        Form::Group => names::group(number()),
        Form::Command => command(number()),
        Form::Time => names::time(field.parse().unwrap_or(0)),
    }
}

fn ipc_table(table: &mut Table, name: &str, columns: &[(&str, usize, Form)]) {
    let count = columns.iter().map(|(_, place, _)| place + 1).max();
    for fields in ipc(name, count.unwrap_or(0)) {
        let row: Vec<(&str, String)> = columns
            .iter()
            .filter_map(|(name, place, form)| Some((*name, printed(fields.get(*place)?, *form))))
            .collect();
        let row: Vec<(&str, &str)> = row
            .iter()
            .map(|(name, value)| (*name, value.as_str()))
            .collect();
        table.row(&row);
    }
}

pub(super) fn shared_memory(table: &mut Table) {
    ipc_table(
        table,
        "shm",
        &[
            ("key", 0, Form::AsIs),
            ("shmid", 1, Form::AsIs),
            ("permissions", 2, Form::AsIs),
            ("size", 3, Form::AsIs),
            ("creator command", 4, Form::Command),
            ("last op. command", 5, Form::Command),
            ("num attached", 6, Form::AsIs),
            ("user", 7, Form::User),
            ("group", 8, Form::Group),
            ("creator user", 9, Form::User),
            ("creator group", 10, Form::Group),
            ("last shmat() time", 11, Form::Time),
            ("last shmdt() time", 12, Form::Time),
            ("last shmctl() time", 13, Form::Time),
        ],
    );
}

pub(super) fn semaphores(table: &mut Table) {
    ipc_table(
        table,
        "sem",
        &[
            ("key", 0, Form::AsIs),
            ("semid", 1, Form::AsIs),
            ("permissions", 2, Form::AsIs),
            ("num semaphores", 3, Form::AsIs),
            ("user", 4, Form::User),
            ("group", 5, Form::Group),
            ("creator user", 6, Form::User),
            ("creator group", 7, Form::Group),
            ("last semop() time", 8, Form::Time),
            ("last semctl() time", 9, Form::Time),
        ],
    );
}

pub(super) fn message_queues(table: &mut Table) {
    ipc_table(
        table,
        "msg",
        &[
            ("key", 0, Form::AsIs),
            ("msqid", 1, Form::AsIs),
            ("permissions", 2, Form::AsIs),
            ("num used bytes", 3, Form::AsIs),
            ("num messages", 4, Form::AsIs),
            ("last msgsnd() command", 5, Form::Command),
            ("last msgrcv() command", 6, Form::Command),
            ("user", 7, Form::User),
            ("group", 8, Form::Group),
            ("creator user", 9, Form::User),
            ("creator group", 10, Form::Group),
            ("last msgsnd() time", 11, Form::Time),
            ("last msgrcv() time", 12, Form::Time),
            ("last msgctl() time", 13, Form::Time),
        ],
    );
}

pub(super) fn sockets(table: &mut Table) {
    for (file, family, protocol) in [
        ("tcp", "INET", "STREAM"),
        ("udp", "INET", "DGRAM"),
        ("tcp6", "INET6", "STREAM"),
        ("udp6", "INET6", "DGRAM"),
    ] {
        for line in lines(&format!("/proc/net/{file}")).iter().skip(1) {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let [_, local, remote, state, _, _, _, user, ..] = fields.as_slice() else {
                continue;
            };
            let (Some(local), Some(remote)) = (end(local), end(remote)) else {
                continue;
            };
            table.row(&[
                ("local address", &local.0.to_string()),
                ("local port", &local.1.to_string()),
                ("remote address", &remote.0.to_string()),
                ("remote port", &remote.1.to_string()),
                ("state", state_name(state)),
                ("user", &names::user(user.parse().unwrap_or(0))),
                ("family", family),
                ("protocol", protocol),
            ]);
        }
    }
}

/// One end of a connection, in the kernel's form: words of the address in the machine's byte order, and the port.
fn end(text: &str) -> Option<(IpAddr, u16)> {
    let (address, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let words: Vec<u8> = address
        .as_bytes()
        .chunks(8)
        .map(|word| {
            let word = u32::from_str_radix(std::str::from_utf8(word).ok()?, 16).ok()?;
            Some(word.to_ne_bytes())
        })
        .collect::<Option<Vec<_>>>()?
        .concat();
    let address = match <[u8; 4]>::try_from(words.as_slice()) {
        Ok(bytes) => IpAddr::V4(Ipv4Addr::from(bytes)),
        Err(_) => IpAddr::V6(Ipv6Addr::from(<[u8; 16]>::try_from(words).ok()?)),
    };
    Some((address, port))
}

/// The states of `include/net/tcp_states.h`.
fn state_name(digits: &str) -> &'static str {
    const NAMES: [&str; 11] = [
        "ESTABLISHED",
        "SYN_SENT",
        "SYN_RECV",
        "FIN_WAIT1",
        "FIN_WAIT2",
        "TIME_WAIT",
        "CLOSE",
        "CLOSE_WAIT",
        "LAST_ACK",
        "LISTEN",
        "CLOSING",
    ];
    usize::from_str_radix(digits, 16)
        .ok()
        .and_then(|number| NAMES.get(number.checked_sub(1)?))
        .copied()
        .unwrap_or("(unknown)")
}

#[cfg(test)]
mod tests {
    use super::{end, state_name};

    #[test]
    fn ends_of_connections_are_read() {
        let (address, port) = end("0100007F:1F90").unwrap();
        assert_eq!((address.to_string().as_str(), port), ("127.0.0.1", 8080));
        let (address, _) = end("00000000000000000000000001000000:0016").unwrap();
        assert_eq!(address.to_string(), "::1");
        assert!(end("zz:1").is_none() && end("0100007F").is_none());
        assert_eq!(state_name("0A"), "LISTEN");
        assert_eq!(state_name("FF"), "(unknown)");
    }
}
