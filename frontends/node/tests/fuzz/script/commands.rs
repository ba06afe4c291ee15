//! Buffers, programs, and commands that have to do with one node.

use super::{BUFFER, Coming, Script};
use quipu_protocol::message::*;

impl Script<'_> {
    pub(super) fn create_buffer(&mut self) {
        // More than the limits allow break a rule.
        if self.buffers.len() >= 30 && !self.errs() {
            return;
        }
        let buffer = self.next_id(self.last.buffer);
        let size = match self.random.below(4) {
            0 => 8,
            1 => 1 + self.random.below(BUFFER),
            _ => 1 + self.random.below(5000),
        };
        let create = CreateBuffer { buffer, size };
        if self.commands.push(&Message::CreateBuffer(create)) {
            self.buffers.push((buffer, size));
            self.last.buffer = self.last.buffer.max(buffer);
        }
    }

    /// Of the next command, or of one that never comes.
    pub(super) fn content_sizes(&mut self) {
        let (Some((buffer, _)), Some((size, _))) = (self.buffer(), self.buffer()) else {
            return;
        };
        // No buffer says how much of itself is in use.
        if buffer == size {
            return;
        }
        let sizes = [ContentSize {
            buffer: buffer.into(),
            size: size.into(),
        }];
        let event = self.next_id(self.last.event).max(1);
        let sizes = &sizes;
        self.commands
            .push(&Message::ContentSizes(ContentSizes { event, sizes }));
    }

    pub(super) fn free_buffer(&mut self) {
        if self.errs() {
            let buffer = self.last.buffer + 1;
            self.commands
                .push(&Message::FreeBuffer(FreeBuffer { buffer }));
        } else if !self.buffers.is_empty() {
            let at = self.random.below(self.buffers.len() as u64);
            let (buffer, _) = self.buffers.swap_remove(at as usize);
            self.commands
                .push(&Message::FreeBuffer(FreeBuffer { buffer }));
        }
    }

    /// Programs that the node has, or still reads.
    fn programs_there(&mut self) -> usize {
        let unended = &self.unended;
        self.reading.retain(|event| unended.contains(event));
        self.programs.len() + self.reading.len()
    }

    pub(super) fn describe(&mut self) {
        if self.programs_there() >= 14 && !self.errs() {
            return;
        }
        let texts = ["kernel void f() {}", "kernel void f(", "no program"];
        let source = self.random.one_of(&texts).unwrap();
        let parts = self.parts(source);
        let forms = [DescribeForm::Linked, DescribeForm::Compiled];
        let describe = match self.random.below(2) {
            0 => Describe::text(source, ""),
            _ => Describe {
                form: self.random.one_of(&forms).unwrap(),
                source: &parts,
                options: "",
            },
        };
        let source = self.in_parts(describe.source);
        let describe = Describe { source, ..describe };
        if self.command(Operation::Describe(describe)) {
            self.reading.push(self.last.event);
        }
    }

    /// Now and then sends a program's source before its message. Gives what the message has.
    fn in_parts<'s>(&mut self, source: &'s [u8]) -> &'s [u8] {
        // Only texts and parts may come so.
        let may = source.len() > 32 || source.starts_with(b"kernel");
        if !self.random.once_in(3) || !(may || self.errs()) {
            return source;
        }
        let (first, rest) = source.split_at(self.random.below(source.len() as u64 + 1) as usize);
        for bytes in [first, rest].into_iter().filter(|bytes| !bytes.is_empty()) {
            self.commands
                .push(&Message::ProgramSource(ProgramSource { bytes }));
        }
        if self.errs() { source } else { &[] }
    }

    /// A program of this text, and perhaps of what is no module.
    fn parts(&mut self, source: &str) -> Vec<u8> {
        let mut parts = Vec::new();
        let text = ProgramPart {
            form: PartForm::OpenClC,
            source: source.as_bytes(),
            options: "",
        };
        text.write(&mut parts);
        if self.random.once_in(2) {
            let module = ProgramPart {
                form: PartForm::SpirV,
                source: &[3, 2, 0x23, 7],
                options: "",
            };
            module.write(&mut parts);
        }
        parts
    }

    pub(super) fn create_program(&mut self) {
        if self.programs_there() >= 14 && !self.errs() {
            return;
        }
        let program = self.next_id(self.last.program);
        let native = [self.random.below(5) as u8; 32];
        let parts = self.parts("kernel void f() {}");
        let (format, source, entry): (_, &[u8], _) = match self.random.below(8) {
            0 => (ProgramFormat::OpenClC, b"kernel void f() {}", "f"),
            3 => (ProgramFormat::Parts, &parts, "f"),
            1 => (ProgramFormat::Module, &[1, 2, 3], ""),
            2 => (ProgramFormat::BuiltIn, b"next_frame", ""),
            _ => (ProgramFormat::Native, &native, "f"),
        };
        let source = self.in_parts(source);
        if self.commands.push(&Message::CreateProgram(CreateProgram {
            program,
            format,
            source,
            entry,
            options: "",
        })) {
            self.programs.push(program);
            self.last.program = self.last.program.max(program);
        }
    }

    pub(super) fn fill(&mut self) {
        let Some((buffer, size)) = self.buffer() else {
            return;
        };
        let (offset, length) = self.range(size);
        let pattern_length = 1 + self.random.below(16);
        let length = length.next_multiple_of(pattern_length);
        let length = match length > size - offset {
            true => length - pattern_length,
            false => length,
        };
        let mut pattern = [0; 16];
        pattern[..pattern_length as usize].fill(self.random.next() as u8);
        self.command(Operation::Fill(Fill {
            buffer,
            offset,
            length,
            pattern,
            pattern_length: pattern_length as u8,
        }));
    }

    /// Outer dimensions that keep a row so long within a buffer, or nearly.
    pub(super) fn steps(&mut self, row: u64, size: u64) -> Vec<(u64, u64)> {
        let mut left = size.saturating_sub(row);
        let mut steps = Vec::new();
        for _ in 0..self.random.below(3) {
            let count = 1 + self.random.below(4);
            let stride = match self.is_odd() {
                true => self.random.below(BUFFER),
                false => left / count,
            };
            left = left.saturating_sub((count - 1) * stride);
            steps.push((count, stride));
        }
        steps
    }

    pub(super) fn copy(&mut self) {
        let (Some((source, from)), Some((destination, to))) = (self.buffer(), self.buffer()) else {
            return;
        };
        let size = from.min(to);
        let (offset, length) = self.range(size);
        let row = 1 + self.random.below(length.min(5000));
        let steps = self.steps(row, length);
        let steps: Vec<Step> = steps
            .iter()
            .map(|(count, stride)| Step {
                count: (*count).into(),
                source_stride: (*stride).into(),
                destination_stride: (*stride).into(),
            })
            .collect();
        let destination_offset = self.random.below(to.saturating_sub(length) + 1);
        self.command(Operation::Copy(Copy {
            source,
            source_offset: offset,
            destination,
            destination_offset,
            row,
            steps: &steps,
        }));
    }

    pub(super) fn strides(&mut self, row: u64, length: u64) -> Vec<Stride> {
        let steps = self.steps(row, length);
        let strides = steps.iter().map(|(count, stride)| Stride {
            count: (*count).into(),
            stride: (*stride).into(),
        });
        strides.collect()
    }

    pub(super) fn write(&mut self) {
        let Some((buffer, size)) = self.buffer() else {
            return;
        };
        let (offset, length) = self.range(size);
        let row = 1 + self.random.below(length.min(9000));
        let steps = self.strides(row, length);
        let mut write = Write {
            buffer,
            offset,
            row,
            steps: &steps,
            transfer: 0,
            bytes: &[],
        };
        let Ok(length) = write.region_bytes() else {
            return;
        };
        if self.bulk.is_some() && self.random.once_in(2) {
            write.transfer = self.transfer();
            if self.command(Operation::Write(write)) {
                self.coming.push(Coming {
                    transfer: write.transfer,
                    length,
                    at: 0,
                });
            }
        } else if length <= 60_000 || self.errs() {
            let bytes = vec![self.random.next() as u8; length as usize];
            self.command(Operation::Write(Write {
                bytes: &bytes,
                ..write
            }));
        }
    }

    pub(super) fn read(&mut self) {
        let Some((buffer, size)) = self.buffer() else {
            return;
        };
        let (offset, length) = self.range(size);
        let by_transfer = self.bulk.is_some() && self.random.once_in(2);
        if self.random.once_in(4) {
            let Some((other, _)) = self
                .buffers
                .iter()
                .copied()
                .find(|(id, size)| *id != buffer && *size >= 8)
            else {
                return;
            };
            let row = if by_transfer {
                length
            } else {
                length.min(60_000)
            };
            let transfer = if by_transfer { self.transfer() } else { 0 };
            self.command(Operation::ReadContent(ReadContent {
                buffer,
                offset,
                row,
                transfer,
                size: other,
            }));
            return;
        }
        let row = 1 + self.random.below(length.min(9000));
        let steps = self.strides(row, length);
        let mut read = Read {
            buffer,
            offset,
            row,
            steps: &steps,
            transfer: 0,
        };
        let Ok(bytes) = read.region_bytes() else {
            return;
        };
        if by_transfer {
            read.transfer = self.transfer();
        } else if bytes > 60_000 && !self.errs() {
            return;
        }
        self.command(Operation::Read(read));
    }

    pub(super) fn launch(&mut self) {
        let programs = std::mem::take(&mut self.programs);
        let program = self.one(&programs, self.last.program);
        self.programs = programs;
        let Some(program) = program else {
            return;
        };
        let rank = 1 + self.random.below(3);
        let mut words = |least: u64, most: u64| -> Vec<Word> {
            let drawn = (0..rank).map(|_| least + self.random.below(most));
            drawn.map(Word::new).collect()
        };
        let (blocks, threads, elements) = (words(0, 5), words(1, 3), words(1, 3));
        let (mut parameters, mut extents, mut values) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..self.random.below(4) {
            if self.random.once_in(3) {
                let length = self.random.below(17) as u32;
                values.resize(values.len() + length as usize, 0x11);
                parameters.push(Parameter::new(ParameterKind::Value { length }));
            } else if let Some((buffer, size)) = self.buffer() {
                let (offset, length) = self.range(size);
                let rank = if self.random.once_in(4) {
                    1 + self.random.below(3)
                } else {
                    0
                };
                for _ in 0..2 * rank {
                    let extent = match self.is_odd() {
                        true => self.random.next(),
                        false => self.random.below(9),
                    };
                    extents.push(Word::new(extent));
                }
                parameters.push(Parameter::new(ParameterKind::Memory {
                    mode: self.random.one_of(AccessMode::ALL).unwrap(),
                    buffer,
                    offset,
                    length,
                    element: 1 + self.random.below(8) as u32,
                    rank: rank as u8,
                }));
            }
        }
        let shared: Vec<Word> = (0..self.random.below(3))
            .map(|_| Word::new(self.random.below(99)))
            .collect();
        self.command(Operation::Launch(Launch {
            program,
            blocks: &blocks,
            threads: &threads,
            elements: &elements,
            offset: &[],
            all_threads: &[],
            shared: &shared,
            parameters: &parameters,
            extents: &extents,
            values: &values,
        }));
    }

    pub(super) fn placeholder(&mut self) {
        let event = self.next_id(self.last.event);
        let peer = match self.random.one_of(&self.awaited) {
            Some((peer, _)) => peer,
            None => self.random.below(3),
        };
        let message = Message::Placeholder(Placeholder { event, peer });
        if self.commands.push(&message) {
            self.last.event = self.last.event.max(event);
            self.events.push(event);
            self.placeholders.push(event);
        }
    }

    pub(super) fn resolve(&mut self) {
        if self.errs() {
            let event = self.random.below(self.last.event + 2);
            return self.resolve_one(event);
        }
        if self.placeholders.is_empty() {
            return;
        }
        let at = self.random.below(self.placeholders.len() as u64);
        let event = self.placeholders.swap_remove(at as usize);
        self.resolve_one(event);
    }

    pub(super) fn resolve_one(&mut self, event: u64) {
        self.events.retain(|other| *other != event);
        let failure = self.random.once_in(3).then_some(Failure::Other);
        self.commands.push(&Message::Resolve(Resolve {
            event,
            failure,
            text: if failure.is_some() { "no" } else { "" },
        }));
    }
}
