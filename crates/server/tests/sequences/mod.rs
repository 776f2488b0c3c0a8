//! Packets made of arbitrary bytes: those that GDB sends, with numbers that sometimes match, in any order, cut,
//! changed, and junk. The tests, the fuzz target `session` and the torture of a live process use this.

use std::fmt::Write;

/// Addresses in a program for packets.
pub struct Places {
    /// Addresses of instructions.
    pub code: Vec<u64>,
    /// An address of memory that can be read, and written to without harm.
    pub data: u64,
    /// The numbers of threads.
    pub threads: Vec<u32>,
    /// Whether packets may change the program: registers, memory, an end by force.
    pub harmful: bool,
}

/// The bytes that decide all choices; zeros once they are used up.
pub struct Choices<'a>(pub &'a [u8]);

impl Choices<'_> {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn byte(&mut self) -> u8 {
        let (first, rest) = self.0.split_first().map_or((0, &[][..]), |(f, r)| (*f, r));
        self.0 = rest;
        first
    }

    pub fn below(&mut self, limit: usize) -> usize {
        usize::from(self.byte()) % limit.max(1)
    }

    fn of<'t, T: ?Sized>(&mut self, choices: &[&'t T]) -> &'t T {
        choices[self.below(choices.len())]
    }

    /// A number that may mean something, or any.
    fn number(&mut self) -> u64 {
        match self.below(8) {
            0 => 0,
            1 => u64::from(self.byte()),
            2 => u64::MAX,
            3 => u64::from(u32::MAX),
            4 => (0..8).fold(0, |value, _| value << 8 | u64::from(self.byte())),
            _ => self.below(5) as u64,
        }
    }

    fn code(&mut self, places: &Places) -> u64 {
        match self.below(16) {
            0 => self.number(),
            1 => places.data,
            _ => places.code[self.below(places.code.len())],
        }
    }

    fn tracepoint(&mut self) -> u64 {
        match self.below(16) {
            0 => self.number(),
            _ => 1 + self.below(3) as u64,
        }
    }

    fn thread(&mut self, places: &Places) -> String {
        match self.below(6) {
            0 => "0".to_owned(),
            1 => "-1".to_owned(),
            2 => format!("p-1.{:x}", self.number()),
            _ => format!("{:x}", places.threads[self.below(places.threads.len())]),
        }
    }

    fn digits(&mut self, most: usize) -> String {
        let mut text = String::new();
        for _ in 0..self.below(most) {
            let _ = write!(text, "{:02x}", self.byte());
        }
        text
    }

    /// A bytecode: one that means something, or any.
    fn expression(&mut self, places: &Places) -> String {
        let data = places.data;
        let bytes = match self.below(10) {
            // A number; a register; a variable counted up.
            0 => format!("22{:02x}27", self.byte()),
            1 => format!("2600{:02x}27", self.below(6)),
            2 => "2c00022201022d000227".to_owned(),
            // Memory: its value; a trace of it, of some bytes, of a string.
            3 => format!("25{data:016x}1927"),
            4 => format!("25{data:016x}22080c27"),
            5 => format!("25{data:016x}0d{:02x}27", self.byte()),
            6 => format!("25{data:016x}222030 27").replace(' ', ""),
            // A division by a register, an endless loop.
            7 => "22642600000527".to_owned(),
            8 => "210000".to_owned(),
            _ => self.digits(24),
        };
        format!("X{:x},{bytes}", bytes.len() / 2)
    }

    fn action(&mut self, places: &Places) -> String {
        match self.below(6) {
            0 => format!("R{:x}", self.number()),
            1 => "Rff".to_owned(),
            2 => format!("M-1,{:x},{:x}", places.data, self.below(40)),
            3 => format!(
                "M{:x},{:x},{:x}",
                self.below(6),
                self.number(),
                self.number()
            ),
            4 => "L".to_owned(),
            _ => self.expression(places),
        }
    }

    /// One packet's payload.
    pub fn packet(&mut self, places: &Places) -> Vec<u8> {
        let mut payload = self.sound_packet(places).into_bytes();
        // Cut, changed, or with another byte inserted.
        if self.below(12) == 0 && !payload.is_empty() {
            let place = self.below(payload.len());
            match self.below(3) {
                0 => payload.truncate(place),
                1 => payload[place] = self.byte(),
                _ => payload.insert(place, self.byte()),
            }
            // Bytes that would end it early, and packets that are not allowed.
            payload.retain(|byte| !b"#$}*\x03".contains(byte));
            let first = payload.first().copied().unwrap_or(0);
            if !places.harmful && !b"QqHTg?m".contains(&first) {
                payload.clear();
            }
        }
        payload
    }

    fn sound_packet(&mut self, places: &Places) -> String {
        match self.below(40) {
            0 => "QTinit".to_owned(),
            1..=3 => {
                let (number, address) = (self.tracepoint(), self.code(places));
                let enabled = self.of(&["E", "E", "E", "D"]);
                let (step, pass) = (self.below(4), self.below(6));
                let mut packet =
                    format!("QTDP:{number:x}:{address:016x}:{enabled}:{step:x}:{pass:x}");
                if self.below(4) == 0 {
                    packet.push_str(self.of(&[":F4", ":F5", ":S"]));
                }
                if self.below(3) == 0 {
                    let _ = write!(packet, ":{}", self.expression(places));
                }
                packet + self.of(&["", "-"])
            }
            4..=6 => {
                let (number, address) = (self.tracepoint(), self.code(places));
                let stepping = self.of(&["", "", "S"]);
                let mut packet = format!("QTDP:-{number:x}:{address:016x}:{stepping}");
                for _ in 0..=self.below(3) {
                    packet.push_str(&self.action(places));
                }
                packet + self.of(&["", "-"])
            }
            7 => {
                let (number, address) = (self.tracepoint(), self.code(places));
                let kind = self.of(&["at", "cond", "cmd", "other"]);
                let (start, length) = (self.below(3), self.below(40));
                format!(
                    "QTDPsrc:{number:x}:{address:016x}:{kind}:{start:x}:{length:x}:{}",
                    self.digits(20)
                )
            }
            8 => format!(
                "QTDV:{:x}:{:016x}:{:x}:{}",
                self.below(4),
                self.number(),
                self.below(2),
                self.digits(6)
            ),
            9..=11 => "QTStart".to_owned(),
            12 => "QTStop".to_owned(),
            13..=15 => match self.below(7) {
                0 => "QTFrame:ffffffff".to_owned(),
                1 => format!("QTFrame:pc:{:x}", self.code(places)),
                2 => format!("QTFrame:tdp:{:x}", self.tracepoint()),
                3 => format!(
                    "QTFrame:range:{:x}:{:x}",
                    self.code(places),
                    self.code(places)
                ),
                4 => format!("QTFrame:outside:{:x}:{:x}", self.number(), self.number()),
                _ => format!("QTFrame:{:x}", self.number()),
            },
            16 => "qTStatus".to_owned(),
            17 => format!("qTP:{:x}:{:x}", self.tracepoint(), self.code(places)),
            18 => format!("qTV:{:x}", self.below(5)),
            19 => self
                .of(&["qTfP", "qTsP", "qTsP", "qTfV", "qTsV"])
                .to_owned(),
            20 => format!(
                "{}:{:x}:{:016x}",
                self.of(&["QTEnable", "QTDisable"]),
                self.tracepoint(),
                self.code(places)
            ),
            21 => format!(
                "QTro:{:x},{:x}:{:x},{:x}",
                places.data,
                places.data.wrapping_add(self.number()),
                self.number(),
                self.number()
            ),
            22 => match self.below(3) {
                0 => format!("QTBuffer:circular:{:x}", self.below(2)),
                1 => format!("QTBuffer:size:{:x}", self.below(250) * 16),
                _ => format!("QTBuffer:size:{:x}", self.number()),
            },
            23 => format!("qTBuffer:{:x},{:x}", self.number(), self.number()),
            24 => format!(
                "QTNotes:{}:{};",
                self.of(&["user", "notes", "tstop"]),
                self.digits(8)
            ),
            25 => format!("QTSave:{}", self.of(&["612e7466", "2e2e2f61", "2f", ""])),
            26 => format!("QTDisconnected:{:x}", self.below(3)),
            27 => format!(
                "qXfer:{}:read:{}:{:x},{:x}",
                self.of(&[
                    "traceframe-info",
                    "features",
                    "threads",
                    "auxv",
                    "statictrace",
                    "exec-file",
                    "libraries-svr4"
                ]),
                self.of(&["", "target.xml"]),
                self.below(3),
                self.number()
            ),
            28 => self
                .of(&["qTfSTM", "qTsSTM", "qTSTMat:1000", "qTMinFTPILen"])
                .to_owned(),
            29 => match self.below(3) {
                0 => "g".to_owned(),
                _ => format!("p{:x}", self.below(20)),
            },
            30..=31 => {
                let address = match self.below(3) {
                    0 => self.code(places),
                    1 => self.number(),
                    _ => places.data,
                };
                format!("m{address:x},{:x}", self.number())
            }
            32..=34 => self.run(places),
            35 => {
                let address = places.code[self.below(places.code.len())];
                format!(
                    "{}{},{address:x},1",
                    self.of(&["Z", "z"]),
                    self.of(&["0", "0", "1"])
                )
            }
            36 => format!("{}{}", self.of(&["Hg", "Hc", "T"]), self.thread(places)),
            37 => self
                .of(&[
                    "?",
                    "qC",
                    "qfThreadInfo",
                    "qsThreadInfo",
                    "qAttached",
                    "qOffsets",
                    "vCont?",
                    "QNonStop:0",
                    "qSupported:multiprocess+;swbreak+",
                    "vMustReplyEmpty",
                    "!",
                    "qSymbol::",
                ])
                .to_owned(),
            38 if places.harmful => match self.below(6) {
                0 => format!("G{}", self.digits(40)),
                1 => format!("P{:x}={}", self.below(6), self.digits(10)),
                2 => "D".to_owned(),
                _ => {
                    let bytes = self.digits(12);
                    format!("M{:x},{:x}:{bytes}", places.data, bytes.len() / 2)
                }
            },
            _ => {
                let mut text = self
                    .of(&[
                        "qT",
                        "QT",
                        "QTD",
                        "q",
                        "Q",
                        "vFile:",
                        "qXfer:",
                        "qRelocInsn:",
                    ])
                    .to_owned();
                for _ in 0..self.below(12) {
                    text.push(char::from(b' ' + self.byte() % 95));
                }
                text.retain(|c| !"#$}*".contains(c));
                text
            }
        }
    }

    fn run(&mut self, places: &Places) -> String {
        let thread = self.thread(places);
        match self.below(5) {
            0 => "vCont;c".to_owned(),
            1 => format!("vCont;s:{thread};c"),
            2 => format!("vCont;s:{thread}"),
            3 => "s".to_owned(),
            _ => "c".to_owned(),
        }
    }
}
