//! Every method of `emit/refused.rs`, each of one type that has it natively, if any has; and some
//! of every other type.

use std::iter::Sum;

use quipu_kernel::{
    Accelerator, BlockAccelerator, GlobalRef, KernelData, OwnBlockTile, OwnElements, OwnRows, OwnTile, SharedWrite,
    kernel,
};

#[derive(Clone, Copy, KernelData)]
#[kernel_data(crate = quipu_kernel)]
#[repr(C)]
struct Total(u32);

impl Sum<usize> for Total {
    fn sum<I: Iterator<Item = usize>>(numbers: I) -> Self {
        Self(numbers.count() as u32)
    }
}

#[kernel(crate = quipu_kernel)]
pub fn slices(_acc: &impl Accelerator<1>, x: &[u32], _y: OwnElements<u32>) {
    let _ = unsafe { x.get_unchecked(1) }; //~ every element of a kernel is checked
    let _ = x.split_first(); //~ this gives an `Option`
    let _ = x.split_last(); //~ this gives an `Option`
    let _ = x.repeat(2); //~ this is not in the kernel language
    let _ = x.split_at(1); //~ write `let (first, second)
    let _ = x.rchunks(2); //~ this iterator is not in the kernel language
    let _ = x.rchunks_exact(2); //~ this iterator is not in the kernel language
    let _ = x.as_chunks(); //~ this iterator is not in the kernel language
    let _ = x.starts_with(&[1, 2]); //~ this is not in the kernel language
    let _ = x.ends_with(&[1, 2]); //~ this is not in the kernel language
    let _ = x.binary_search(&3); //~ this is not in the kernel language
    let _ = x.is_sorted(); //~ this is not in the kernel language
    let _ = x.to_vec(); //~ memory is not allocated in kernels
}

#[kernel(crate = quipu_kernel)]
pub fn arrays(_acc: &impl Accelerator<1>, x: &[u32], _y: OwnElements<u32>) {
    let (mut own, mut other) = ([1_u32, 2, 3, 4], [1_u32, 2, 3, 4]);
    let pairs = [own, other];
    let _ = own.get_mut(1); //~ `get_mut` gives an `Option`
    let _ = unsafe { own.get_unchecked_mut(1) }; //~ every element of a kernel is checked
    let _ = own.first_mut(); //~ this gives an `Option`
    let _ = own.last_mut(); //~ this gives an `Option`
    own.copy_within(0..2, 1); //~ this is not in the kernel language
    own.swap_with_slice(&mut other); //~ this is not in the kernel language
    let _ = pairs.concat(); //~ this is not in the kernel language
    let _ = own.split_at_mut(1); //~ write `let (first, second)
    let _ = own.as_slice(); //~ this is not in the kernel language
    let _ = own.as_mut_slice(); //~ this is not in the kernel language
    let _ = own.chunks_mut(2); //~ this iterator is not in the kernel language
    let _ = own.chunks_exact_mut(2); //~ this iterator is not in the kernel language
    own.sort(); //~ this is not in the kernel language
    own.sort_unstable(); //~ this is not in the kernel language
    own.rotate_left(1); //~ this is not in the kernel language of slices
    own.rotate_right(1); //~ this is not in the kernel language of slices
    own.push(3); //~ memory is not allocated in kernels
    own.pop(); //~ memory is not allocated in kernels
    own.insert(1, 2); //~ memory is not allocated in kernels
    own.remove(1); //~ memory is not allocated in kernels
    own.extend(x); //~ memory is not allocated in kernels
}

#[kernel(crate = quipu_kernel)]
pub fn iterators(_acc: &impl Accelerator<1>, x: &[u32], _y: OwnElements<u32>) {
    let _ = x.iter().next(); //~ write a `for` loop, and `break`
    let _ = x.iter().nth(1); //~ this gives an `Option`
    let _ = x.chunks_exact(2).into_remainder(); //~ write the range of the rest
    let _ = x.iter().as_slice(); //~ this is not in the kernel language
    let _ = x.iter().array_chunks(); //~ this iterator is not in the kernel language
    let _ = x.iter().collect::<Vec<_>>(); //~ this iterator is not in the kernel language
    let _ = x.iter().count(); //~ this iterator is not in the kernel language
    let _ = x.iter().chain(x); //~ this iterator is not in the kernel language
    let _ = x.iter().cycle(); //~ this iterator is not in the kernel language
    let _ = x.iter().peekable(); //~ this iterator is not in the kernel language
    let _ = x.iter().into_iter(); //~ `for` goes over it as it is
    for _ in [1, 2].into_iter() {} //~ write `.iter()`
}

#[kernel(crate = quipu_kernel)]
pub fn ranges(acc: &impl Accelerator<1>, x: &[u32], mut y: OwnElements<u32>) {
    let n = x.len();
    for _ in [1, 2].map(|k| k + n) {} //~ of an array write `.iter()`
    let _: Total = (0..n).sum(); //~ a sum or product of `usize` is no `Total` in kernels
    let _: Total = (0..n).map(|k| k + 1).sum(); //~ a sum or product of `usize` is no `Total` in kernels
    let _ = x.iter().zip(n); //~ does not go over `usize`
    let _ = (0..n).take(2).chain(0..n); //~ this iterator is not in the kernel language
    let _ = acc.elements(n).count(); //~ this iterator is not in the kernel language
    let _ = y.each().next(); //~ write a `for` loop, and `break`
    let _ = y.each().chain(y.each()); //~ this iterator is not in the kernel language
    let _ = y.each().sum::<usize>(); //~ a sum or product
    let _ = y.rows().skip(1); //~ own elements are gone over as they come
    let _ = y.rows().take(1); //~ own elements are gone over as they come
    let _ = y.rows().step_by(2); //~ own elements are gone over as they come
    let _ = y.rows().enumerate(); //~ own elements are gone over as they come
    let _ = y.rows().sum::<usize>(); //~ own elements are gone over as they come
    let _ = y.rows().product::<usize>(); //~ own elements are gone over as they come
    let _ = y.rows().rev(); //~ own elements are gone over as they come
    let _ = y.rows().copied(); //~ own elements are gone over as they come
    let _ = y.rows().cloned(); //~ own elements are gone over as they come
    let _ = y.rows().zip(x); //~ and the other output as a `RawMut`
    let _ = y.rows().next(); //~ write a `for` loop, and `break`
}

#[kernel(crate = quipu_kernel)]
pub fn with_closures(acc: &impl Accelerator<1>, x: &[u32], mut y: OwnElements<u32>) {
    let mut own = [3u32, 1, 2];
    own.fill_with(|| 3); //~ this method with a closure is not in the kernel language
    own.sort_by(|a, b| b.cmp(a)); //~ this method with a closure is not in the kernel language
    own.sort_unstable_by(|a, b| b.cmp(a)); //~ this method with a closure is not in the kernel language
    own.sort_by_key(|a| *a); //~ this method with a closure is not in the kernel language
    own.sort_unstable_by_key(|a| *a); //~ this method with a closure is not in the kernel language
    let _ = own.binary_search_by(|a| a.cmp(&2)); //~ this method with a closure is not in the kernel language
    let _ = x.partition_point(|a| *a < 2); //~ this method with a closure is not in the kernel language
    let items = x.iter();
    let _ = items.map(|a| a + 1); //~ nothing comes behind them
    let items = x.iter().zip(x);
    let _ = items.filter(|(a, b)| *a + *b > 3); //~ nothing comes behind them
    let items = acc.elements(3);
    let _ = items.take_while(|a| *a > 3); //~ nothing comes behind them
    let items = y.each();
    let _ = items.flat_map(|(k, _)| 0..k); //~ this method with a closure is not in the kernel language
    let items = x.iter();
    let _ = items.filter_map(|a| a.checked_sub(1)); //~ this method with a closure is not in the kernel language
    let items = x.iter().copied();
    let _ = items.skip_while(|a| *a > 1); //~ this method with a closure is not in the kernel language
    let items = 0..3u32;
    let _ = items.map_while(|a| a.checked_sub(1)); //~ this method with a closure is not in the kernel language
    let items = x.iter();
    let _ = items.scan(0, |sum, a| (*sum < *a).then_some(*a)); //~ this method with a closure is not in the kernel language
    let items = x.iter();
    let _ = items.inspect(|a| println!("{a}")); //~ this method with a closure is not in the kernel language
}

#[kernel(crate = quipu_kernel)]
pub fn parts(
    _acc: &impl Accelerator<2>,
    x: GlobalRef<u32, 2>,
    mut tile: OwnTile<u32, 2>,
    mut shared: OwnBlockTile<u32, 2>,
    mut rows: OwnRows<u32>,
) {
    let _ = x.at([1, 1]); //~ this gives an `Option`
    let _ = x.row([1, 0]); //~ write `view[[i, j]]`
    let _ = tile.get([1, 1]); //~ `get` of a tile gives an `Option`
    let _ = tile.get_mut([1, 1]); //~ `get_mut` gives an `Option`
    let _ = tile.each().skip(1); //~ own elements are gone over as they come
    let _ = shared.each().skip(1); //~ own elements are gone over as they come
    let _ = rows.each().count(); //~ this iterator is not in the kernel language
}

#[kernel(crate = quipu_kernel)]
pub async fn shared(
    acc: &impl BlockAccelerator<1>,
    mut y: OwnElements<u32>,
    #[shared(4)] s: SharedWrite<u32>,
) {
    let s = acc.sync(s).await;
    let _ = s.to_vec(); //~ memory is not allocated in kernels
    for (_, y) in y.each() {
        *y = s[0];
    }
}

#[kernel(crate = quipu_kernel)]
pub fn integers(_acc: &impl Accelerator<1>, n: i32, m: u32, _y: OwnElements<u32>) {
    let _ = n.wrapping_div_euclid(3); //~ this is not in the kernel language
    let _ = n.wrapping_rem_euclid(3); //~ this is not in the kernel language
    let _ = m.ilog10(); //~ this logarithm of an integer is not in the kernel language
    let _ = m.ilog(3); //~ this logarithm of an integer is not in the kernel language
    let _ = n.saturating_pow(3); //~ this is not in the kernel language
    let _ = n.saturating_div(3); //~ this is not in the kernel language
    let _ = m.cast_signed(); //~ this is not in the kernel language
    let _ = n.cast_unsigned(); //~ this is not in the kernel language
    let _ = m.wrapping_add_signed(n); //~ write `as`
    let _ = m.wrapping_sub_signed(n); //~ write `as`
    let _ = m.saturating_add_signed(n); //~ write `as`
    let _ = n.wrapping_add_unsigned(m); //~ write `as`
    let _ = n.wrapping_sub_unsigned(m); //~ write `as`
    let _ = n.saturating_add_unsigned(m); //~ write `as`
    let _ = n.saturating_sub_unsigned(m); //~ write `as`
    let _ = m.unbounded_shl(3); //~ compare the amount with `BITS`
    let _ = m.unbounded_shr(3); //~ compare the amount with `BITS`
    let _ = m.midpoint(3); //~ add the half of the difference
    let _ = (m as u8).is_ascii(); //~ compare numbers, such as `b'0'`
    let _ = (m as u8).is_ascii_digit(); //~ compare numbers, such as `b'0'`
    let _ = (m as u8).is_ascii_alphabetic(); //~ compare numbers, such as `b'0'`
    let _ = (m as u8).is_ascii_alphanumeric(); //~ compare numbers, such as `b'0'`
    let _ = (m as u8).is_ascii_lowercase(); //~ compare numbers, such as `b'0'`
    let _ = (m as u8).is_ascii_uppercase(); //~ compare numbers, such as `b'0'`
    let _ = (m as u8).is_ascii_whitespace(); //~ compare numbers, such as `b'0'`
    let _ = (m as u8).to_ascii_lowercase(); //~ compare numbers, such as `b'0'`
    let _ = (m as u8).to_ascii_uppercase(); //~ compare numbers, such as `b'0'`
}

#[kernel(crate = quipu_kernel)]
pub fn floats(_acc: &impl Accelerator<1>, a: f32, _y: OwnElements<f32>) {
    let _ = a.next_up(); //~ count its bits up or down
    let _ = a.next_down(); //~ count its bits up or down
    let _ = a.is_normal(); //~ this is not in the kernel language
    let _ = a.is_subnormal(); //~ this is not in the kernel language
    let _ = a.classify(); //~ this is not in the kernel language
}

#[kernel(crate = quipu_kernel)]
pub fn with_overflow(_acc: &impl Accelerator<1>, n: u32, i: i32, _y: OwnElements<u32>) {
    let _ = n.checked_next_multiple_of(2); //~ use the wrapping or saturating method
    let _ = i.checked_add_unsigned(2); //~ use the wrapping or saturating method
    let _ = n.checked_div_euclid(2); //~ use the wrapping or saturating method
    let _ = n.checked_rem_euclid(2); //~ use the wrapping or saturating method
    let _ = n.checked_pow(2); //~ use the wrapping or saturating method
    let _ = n.checked_ilog2(); //~ use the wrapping or saturating method
    let _ = n.checked_ilog10(); //~ use the wrapping or saturating method
    let _ = n.checked_isqrt(); //~ use the wrapping or saturating method
    let _ = n.checked_next_power_of_two(); //~ use the wrapping or saturating method
    let _ = n.checked_add_signed(i); //~ use the wrapping or saturating method
    let _ = n.overflowing_pow(2); //~ use the wrapping method
}

fn main() {}
