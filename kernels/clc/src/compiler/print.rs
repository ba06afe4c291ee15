//! `printf`, as OpenCL C has it, by the C library's.
//!
//! OpenCL C prints vectors (`%v4hlf`) and gives zero. Each call becomes one of a format with a
//! conversion for each element.

use super::llvm::*;

/// The length of a byte. Numbers are made bytes here, for the function of NVIDIA's driver does not
/// know it.
const BYTE: &str = "hh";

/// A part of a format.
#[derive(Debug, PartialEq, Eq)]
enum Part {
    /// It takes no argument.
    Text(String),
    /// It takes an argument, or several: `*` stands for one.
    One(String, usize),
    /// A vector's element is printed so, with commas between them.
    Vector {
        element: String,
        count: u32,
        is_signed: bool,
        stars: usize,
    },
}

/// Takes a format apart.
fn parts(format: &str) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut rest = format;
    while let Some(at) = rest.find('%') {
        if at > 0 {
            parts.push(Part::Text(rest[..at].to_owned()));
        }
        let from = &rest[at + 1..];
        let is_before = |c: char| !c.is_ascii_alphabetic() && c != '%';
        let before = from.find(|c| !is_before(c)).unwrap_or(from.len());
        let (flags, after) = from.split_at(before);
        let (count, after) = match after.strip_prefix('v') {
            Some(vector) => {
                let digits = vector.len()
                    - vector
                        .trim_start_matches(|c: char| c.is_ascii_digit())
                        .len();
                (vector[..digits].parse().ok(), &vector[digits..])
            }
            None => (None, after),
        };
        let is_length = |c: char| matches!(c, 'h' | 'l' | 'j' | 'z' | 't' | 'L');
        let length = after.find(|c| !is_length(c)).unwrap_or(after.len());
        let (length, after) = after.split_at(length);
        let Some(conversion) = after.chars().next() else {
            parts.push(Part::Text(rest[at..].to_owned()));
            return parts;
        };
        let stars = flags.matches('*').count();
        // `hl` says that elements are as large as `int` and `float`, and `h` that they are `half`,
        // which C does not say.
        let is_float = "aefg".contains(conversion.to_ascii_lowercase());
        let length = match length {
            "hl" => "",
            "h" if is_float => "",
            length => length,
        };
        let one = format!("%{flags}{length}{conversion}");
        parts.push(match count {
            Some(count) => Part::Vector {
                element: one,
                count,
                is_signed: matches!(conversion, 'd' | 'i'),
                stars,
            },
            None if conversion == '%' => Part::Text(one),
            None => Part::One(one, stars + 1),
        });
        rest = &after[conversion.len_utf8()..];
    }
    if !rest.is_empty() {
        parts.push(Part::Text(rest.to_owned()));
    }
    parts
}

/// Makes each call of `printf` one of the C library's.
pub(super) fn lower(context: Context, module: Module) {
    let Some(printf) = module.function("printf") else {
        return;
    };
    let of = LLVMGlobalGetValueType(printf);
    let builder = LLVMCreateBuilderInContext(context);
    for call in printf.users() {
        if call.callee().as_deref() != Some("printf") {
            continue;
        }
        LLVMPositionBuilderBefore(builder, call);
        let mut passed = call.operands();
        let format = passed.next();
        // The last operand is what is called.
        let count = LLVMGetNumOperands(call).max(2) as usize - 2;
        let mut passed = passed.take(count);
        let Some(text) = format.and_then(constant_text) else {
            continue;
        };
        let (mut format, mut arguments) = (String::new(), Vec::new());
        for part in parts(&text) {
            match part {
                Part::Text(text) => format += &text,
                Part::One(one, takes) => {
                    format += &one.replace(BYTE, "");
                    let is_signed = one.ends_with(['d', 'i']);
                    let mut taken: Vec<Value> = passed.by_ref().take(takes).collect();
                    if let Some(last) = taken.last_mut().filter(|_| one.contains(BYTE)) {
                        *last = narrowed(context, builder, *last);
                    }
                    let taken = taken.into_iter();
                    arguments
                        .extend(taken.map(|value| promoted(context, builder, value, is_signed)));
                }
                Part::Vector {
                    element,
                    count,
                    is_signed,
                    stars,
                } => {
                    let stars: Vec<Value> = passed.by_ref().take(stars).collect();
                    let Some(vector) = passed.next() else {
                        continue;
                    };
                    for at in 0..count {
                        format += if at == 0 { "" } else { "," };
                        format += &element.replace(BYTE, "");
                        arguments.extend(&stars);
                        arguments.push(element_of(context, builder, vector, at, is_signed));
                    }
                }
            }
        }
        arguments.insert(0, global_text(context, module, &format));
        LLVMBuildCall2(
            builder,
            of,
            printf,
            arguments.as_ptr(),
            arguments.len() as u32,
            UNNAMED,
        );
        LLVMReplaceAllUsesWith(call, LLVMConstInt(LLVMIntTypeInContext(context, 32), 0, 0));
        LLVMInstructionEraseFromParent(call);
    }
}

/// The object at whose start a pointer points: SPIR-V points to a text's first character.
fn start_of(pointer: Value) -> Value {
    let operation = match LLVMIsAConstantExpr(pointer).some() {
        Some(constant) => Some(LLVMGetConstOpcode(constant)),
        None => pointer.opcode(),
    };
    let is_same = match operation {
        Some(op::GEP) => pointer
            .operands()
            .skip(1)
            .all(|index| index.number() == Some(0)),
        Some(op::BIT_CAST | op::ADDRESS_SPACE_CAST) => true,
        _ => false,
    };
    match is_same {
        true => start_of(LLVMGetOperand(pointer, 0)),
        false => pointer,
    }
}

/// The text that a constant pointer points to. A character stands for each byte, whatever that is.
fn constant_text(pointer: Value) -> Option<String> {
    let global = LLVMIsAGlobalVariable(start_of(pointer)).some()?;
    let value = LLVMGetInitializer(global).some()?;
    // A text without a character is a zero, which libLLVM must not be asked about.
    let is_text = LLVMIsAConstantDataArray(value).some().is_some();
    if !is_text || LLVMIsConstantString(value) == 0 {
        return Some(String::new());
    }
    let mut length = 0;
    let first = LLVMGetAsString(value, &raw mut length);
    // SAFETY: libLLVM gives so many bytes, which live as long as the module.
    let bytes = unsafe { std::slice::from_raw_parts(first.cast::<u8>(), length) };
    let text = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
    Some(text.iter().copied().map(char::from).collect())
}

/// A constant with such a text, as [`constant_text`] gives it.
fn global_text(context: Context, module: Module, text: &str) -> Value {
    const CONSTANT: u32 = 2;
    let text: Vec<u8> = text.chars().map(|byte| byte as u8).collect();
    let value = LLVMConstStringInContext(context, text.as_ptr().cast(), text.len() as u32, 0);
    let global =
        LLVMAddGlobalInAddressSpace(module, LLVMTypeOf(value), c"format".as_ptr(), CONSTANT);
    LLVMSetInitializer(global, value);
    LLVMSetGlobalConstant(global, 1);
    LLVMSetLinkage(global, linkage::INTERNAL);
    global
}

/// An element of a vector as C passes it where it does not know its type.
fn element_of(
    context: Context,
    builder: Builder,
    vector: Value,
    at: u32,
    is_signed: bool,
) -> Value {
    let index = LLVMConstInt(LLVMIntTypeInContext(context, 32), u64::from(at), 0);
    let value = LLVMBuildExtractElement(builder, vector, index, UNNAMED);
    promoted(context, builder, value, is_signed)
}

/// A number as the byte that it is printed as.
fn narrowed(context: Context, builder: Builder, value: Value) -> Value {
    let of = value.ty();
    let is_wide = of.kind() == kind::INTEGER && LLVMGetIntTypeWidth(of) > 8;
    match is_wide {
        true => LLVMBuildCast(
            builder,
            op::TRUNC,
            value,
            LLVMIntTypeInContext(context, 8),
            UNNAMED,
        ),
        false => value,
    }
}

/// A value as C passes it where it does not know its type: clang does that to scalars, and SPIR-V
/// has them as they are.
fn promoted(context: Context, builder: Builder, value: Value, is_signed: bool) -> Value {
    let of = value.ty();
    let (operation, to) = match of.kind() {
        kind::HALF | kind::FLOAT => (op::FP_EXT, LLVMDoubleTypeInContext(context)),
        kind::INTEGER if LLVMGetIntTypeWidth(of) < 32 => {
            let extend = if is_signed { op::SEXT } else { op::ZEXT };
            (extend, LLVMIntTypeInContext(context, 32))
        }
        _ => return value,
    };
    LLVMBuildCast(builder, operation, value, to, UNNAMED)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_format_is_taken_apart() {
        let one = |text: &str, takes| Part::One(text.to_owned(), takes);
        let text = |text: &str| Part::Text(text.to_owned());
        assert_eq!(
            parts("a %d %% %-*.3hhx|%v4hlf%5.2v2hd%s%v2hg"),
            [
                text("a "),
                one("%d", 1),
                text(" "),
                text("%%"),
                text(" "),
                one("%-*.3hhx", 2),
                text("|"),
                Part::Vector {
                    element: "%f".to_owned(),
                    count: 4,
                    is_signed: false,
                    stars: 0
                },
                Part::Vector {
                    element: "%5.2hd".to_owned(),
                    count: 2,
                    is_signed: true,
                    stars: 0
                },
                one("%s", 1),
                Part::Vector {
                    element: "%g".to_owned(),
                    count: 2,
                    is_signed: false,
                    stars: 0
                },
            ]
        );
        assert_eq!(parts("100%"), [text("100"), text("%")]);
    }
}
