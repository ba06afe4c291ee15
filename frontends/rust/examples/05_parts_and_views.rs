//! Parts of buffers, and arrays of several dimensions with gaps between rows.

use quipu::prelude::*;

/// Transposes an image by tiles, and brings a corner of it back.
pub fn main() -> quipu::Result<()> {
    let platform = Platform::new()?;
    let context = platform.context()?;
    let queue = context.queue(&platform.device("cpu")?)?;

    // Halves of one buffer: these two run at the same time.
    let numbers = context.allocate::<u32>(1000)?;
    let (mut low, mut high) = numbers.split_at(500)?;
    queue.for_each(&mut low, (), |i, number, ()| *number = i as u32)?;
    queue.for_each(&mut high, (), |i, number, ()| *number = 1000 * i as u32)?;
    assert_eq!(
        queue.read(&numbers.slice(499..502)?)?.wait()?,
        [499, 0, 1000]
    );

    // An image whose rows start at cache lines, and its upper right corner.
    let image = context.allocate_padded::<u8, 2>([48, 100])?;
    println!("rows are {} bytes apart", image.pitch()[0]);
    let pixels = (0..48 * 100).map(|i| (i % 100) as u8).collect::<Vec<_>>();
    drop(queue.write_nd(&image, pixels, &Layout::dense([48, 100])?)?); // the write goes on
    let corner = image.region([0..2, 97..100])?;
    queue.fill_nd(&image.region([1..2, 98..99])?, 255)?;
    assert_eq!(queue.read_nd(&corner)?.wait()?, [97, 98, 99, 97, 255, 99]);

    // Into the middle of a host array.
    let canvas = Layout::dense([4, 5])?;
    let middle = canvas.region([1..3, 1..4])?;
    let framed = queue.read_nd_to(&corner, vec![0; 20], &middle)?.wait()?;
    for row in framed.chunks(5) {
        println!("{row:3?}");
    }
    Ok(())
}
