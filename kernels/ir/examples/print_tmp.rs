//! Temporary.
use quipu_kernel_ir::*;
fn main() {
    let mut f = FunctionBuilder::new("saxpy");
    let a = f.uniform("a", Scalar::F32.into());
    let x = f.buffer("x", Scalar::F32.into(), false);
    let y = f.buffer("y", Scalar::F32.into(), true);
    let length = f.length(y);
    f.elements(&["i"], &[length], |f, _, position| {
        let i = position[0];
        f.at(Some(Location {
            file: "src/lib.rs",
            line: 7,
        }));
        let element = f.load(Place::element(x, i), Scalar::F32.into());
        let old = f.load(Place::element_unchecked(y, i), Scalar::F32.into());
        let product = f.binary(BinaryOperation::Multiply, a, element);
        let sum = f.binary(BinaryOperation::Add, old, product);
        f.store(Place::element_unchecked(y, i), sum);
    });
    let module = ModuleBuilder::new().finish(f.kernel(1));
    for d in [
        Dialect::C99,
        Dialect::OpenCl(OpenClFeatures::USUAL),
        Dialect::Cuda,
    ] {
        let p = module
            .print(d, &Options::new(d, IndexWidth::Bits32))
            .unwrap();
        println!("{}", p.source);
    }
}
