//! Loops that count, and the metadata of those over work-items.

use super::super::notes::Notes;
use super::Emitter;
use crate::compiler::Fault;
use crate::compiler::llvm::*;

/// A loop that is being written.
pub(super) struct Counted {
    pub(super) before: Block,
    pub(super) head: Block,
    pub(super) number: Value,
    pub(super) bound: Value,
    pub(super) step: u64,
}

impl Emitter {
    /// Begins a loop with at least one turn; its number counts up to `bound`.
    pub(super) fn count(&self, bound: Value, step: u64) -> Counted {
        let before = self.here();
        if bound.number().is_some_and(|bound| bound <= step) {
            let number = self.narrow(0);
            return Counted {
                before,
                head: before,
                number,
                bound,
                step,
            };
        }
        let head = self.block("loop");
        LLVMBuildBr(self.builder, head);
        self.go_on(head);
        let number = LLVMBuildPhi(self.builder, self.int(32), UNNAMED);
        Counted {
            before,
            head,
            number,
            bound,
            step,
        }
    }

    /// Ends it here; it goes on after it.
    pub(super) fn counted(&self, of: &Counted, properties: Option<Value>) {
        if of.head == of.before {
            return;
        }
        let next = self.sum(of.number, self.narrow(of.step));
        let more = self.compared(compare::ULT, next, of.bound);
        let after = self.block("after");
        let latch = self.here();
        let branch = LLVMBuildCondBr(self.builder, more, of.head, after);
        if let Some(properties) = properties {
            LLVMSetMetadata(branch, metadata_kind(self.context, "llvm.loop"), properties);
        }
        for (value, from) in [(self.narrow(0), of.before), (next, latch)] {
            LLVMAddIncoming(of.number, &raw const value, &raw const from, 1);
        }
        self.go_on(after);
    }

    /// The mark of the accesses of a loop over work-items, and the metadata of the loop. (Only text
    /// makes such metadata.) Where it is over a part of a strip, the vectors' loop is to be
    /// unrolled, so that the strip's arrays are in registers. So many work-items are to be in a
    /// vector together, if a number is given. Notes are of this loop from here on.
    pub(super) fn loop_properties(
        &mut self,
        is_strip: bool,
        together: Option<u64>,
    ) -> Result<(Value, Value), Fault> {
        const TEXT: &str = "!properties = !{!0, !1}\n\
            !0 = distinct !{}\n\
            !1 = distinct !{!1, PLACE!2, !3, !4, !5, !8}\n\
            !2 = !{!\"llvm.loop.parallel_accesses\", !0}\n\
            !3 = !{!\"llvm.loop.vectorize.enable\", i1 true}\n\
            !4 = !{!\"llvm.loop.unroll.disable\"}\n\
            !5 = !{!\"llvm.loop.vectorize.followup_vectorized\", !6, !7}\n\
            !6 = !{!\"llvm.loop.isvectorized\", i32 1}\n\
            !7 = !{!\"llvm.loop.unroll.FOLLOWING\"}\n\
            !8 = !{!\"llvm.loop.vectorize.width\", i32 TOGETHER}\n";
        // None is as many as the optimiser finds best.
        let together = together.unwrap_or(0).to_string();
        let following = if is_strip { "full" } else { "runtime.disable" };
        // What LLVM says of a loop, it says by its place: a file by the name of the loop's number.
        const PLACE: &str = "!scope = !{!10}\n\
            !9 = !DILocation(line: 1, scope: !10)\n\
            !10 = distinct !DISubprogram(file: !11, unit: !12, spFlags: DISPFlagDefinition)\n\
            !11 = !DIFile(filename: \"NUMBER\", directory: \"\")\n\
            !12 = distinct !DICompileUnit(language: DW_LANG_OpenCL, file: !11, emissionKind: NoDebug)\n";
        let number = self.notes.as_ref().map(Notes::next_loop);
        let mut text = TEXT
            .replace("FOLLOWING", following)
            .replace("TOGETHER", &together)
            .replace("PLACE", number.map_or("", |_| "!9, "));
        text.extend(number.map(|number| PLACE.replace("NUMBER", &number.to_string())));
        let mut module = Module::NULL;
        let mut message = std::ptr::null_mut();
        if LLVMParseIRInContext(
            self.context,
            buffer(text.as_bytes()),
            &raw mut module,
            &raw mut message,
        ) != 0
        {
            return Err(Fault::Failed(string(message)));
        }
        let mut both = [Value::NULL; 2];
        LLVMGetNamedMetadataOperands(module, c"properties".as_ptr(), both.as_mut_ptr());
        if let Some(notes) = &mut self.notes {
            let mut scope = Value::NULL;
            LLVMGetNamedMetadataOperands(module, c"scope".as_ptr(), &raw mut scope);
            notes.enter(LLVMValueAsMetadata(scope));
        }
        Ok((both[0], both[1]))
    }
}
