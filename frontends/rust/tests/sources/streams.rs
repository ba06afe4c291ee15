//! Sources, and that their devices run nothing else.

use super::*;

fn of(source: Source) -> Context {
    let driver = Options::new().source(source).start().unwrap();
    let builder = Platform::builder().without_embedded().driver(driver);
    builder.build().unwrap().context().unwrap()
}

fn three() -> Vec<Vec<u8>> {
    vec![b"one".to_vec(), b"a second".to_vec(), b"3".to_vec()]
}

#[test]
fn frames_come_in_order_and_begin_anew() {
    let context = of(Source::frames("camera", three()));
    let mut stream = Stream::new(&context, "camera", 20);
    for expected in three().iter().cycle().take(7) {
        stream.next().unwrap();
        assert_eq!(stream.bytes(), *expected);
    }
}

#[test]
fn frames_that_are_asked_for_at_once_come_in_order_too() {
    let context = of(Source::frames(
        "camera",
        (0..100).map(|n| vec![n; 3]).collect(),
    ));
    let camera = named(&context, "camera");
    let next = camera.built_in_kernel("next_frame").unwrap();
    let options = QueueOptions {
        in_order: false,
        ..QueueOptions::default()
    };
    let queue = context.queue_with(&camera, options).unwrap();
    let mut position = context.allocate::<u64>(1).unwrap();
    let mut size = context.allocate::<u64>(1).unwrap();
    let all = context.allocate::<u8>(300).unwrap();
    for number in 0..100 {
        let mut part = all.slice(number * 3..number * 3 + 3).unwrap();
        let call = next.call((&mut position, &mut part, &mut size));
        queue.post_launch(1, call).unwrap();
    }
    let all = queue.read(&all).unwrap().wait().unwrap();
    assert!((0..300).all(|at| usize::from(all[at]) == at / 3));
}

#[test]
fn a_stream_that_does_not_begin_anew_ends_with_frames_of_no_bytes() {
    let context = of(Source::frames("camera", three()).once());
    let mut stream = Stream::new(&context, "camera", 20);
    for expected in three().iter().chain([&Vec::new(), &Vec::new()]) {
        stream.next().unwrap();
        assert_eq!(stream.bytes(), *expected);
    }
    let position = stream.queue.read(&stream.position).unwrap();
    assert_eq!(position.wait().unwrap(), [3]);
}

#[test]
fn a_frame_is_had_by_its_number() {
    let context = of(Source::frames("camera", three()));
    let camera = named(&context, "camera");
    let queue = context.queue(&camera).unwrap();
    let frame = camera.built_in_kernel("frame").unwrap();
    let mut size = context.allocate::<u64>(1).unwrap();
    // What is not overwritten stays.
    let mut bytes = context.buffer(&[b'.'; 10]).unwrap();
    let call = frame.call((4u64, &mut bytes, &mut size));
    queue.launch(1, call).unwrap();
    assert_eq!(queue.read(&bytes).unwrap().wait().unwrap(), *b"a second..");
}

#[test]
fn with_a_rate_each_frame_is_later_than_the_one_before() {
    let frames: Vec<Vec<u8>> = (0..200).map(|number| vec![number]).collect();
    let context = of(Source::frames("camera", frames).rate(2000.0).once());
    let mut stream = Stream::new(&context, "camera", 4);
    let mut last = None;
    // However long each takes, some are missed and none comes twice, until there are no more.
    loop {
        stream.next().unwrap();
        let bytes = stream.bytes();
        let Some(number) = bytes.first() else { break };
        assert!(last.is_none_or(|last| *number > last));
        last = Some(*number);
    }
}

#[test]
fn who_waits_for_a_frame_can_be_cancelled() {
    // The next frame would be there in ten seconds.
    let context = of(Source::frames("camera", three()).rate(0.1));
    let mut stream = Stream::new(&context, "camera", 20);
    loop {
        stream.queue.fill(&stream.position, 1_u64 << 40).unwrap();
        let event = stream.next().unwrap();
        event.cancel();
        // Unless the frame was there before, for who was held up so long.
        let Err(error) = event.wait() else { continue };
        assert!(matches!(error.kind(), quipu::ErrorKind::Cancelled { .. }));
        break;
    }
}

#[test]
fn motion_jpeg_and_raw_video_are_read_from_files() {
    let folder = tempfile::tempdir().unwrap();
    let context = context();
    let mut camera = Stream::new(&context, "camera", 1 << 16);
    let (mut pictures, mut all) = (Vec::new(), Vec::new());
    for _ in 0..5 {
        camera.next().unwrap();
        pictures.push(camera.bytes());
        all.extend_from_slice(b"--frame\r\n");
        all.extend(camera.bytes());
    }
    std::fs::write(folder.path().join("street.mjpeg"), &all).unwrap();
    std::fs::write(folder.path().join("film.raw"), [7; 2 * 3 * 2 + 5]).unwrap();
    let path = |name| folder.path().join(name).display().to_string();
    let street: Source = format!("street={}", path("street.mjpeg")).parse().unwrap();
    let film = format!("film={},width=2,height=3,pixels=gray", path("film.raw"));
    let film: Source = film.parse().unwrap();
    let driver = Options::new().source(street).source(film).start().unwrap();
    let platform = Platform::builder().without_embedded().driver(driver);
    let context = platform.build().unwrap().context().unwrap();
    let mut street = Stream::new(&context, "street", 1 << 16);
    for picture in pictures.iter().chain(&pictures) {
        street.next().unwrap();
        assert_eq!(street.bytes(), *picture);
    }
    let queue = context.queue(&named(&context, "film")).unwrap();
    let about = queue.device().built_in_kernel("stream_info").unwrap();
    let mut info = context.allocate::<u64>(7).unwrap();
    queue.launch(1, about.call((&mut info,))).unwrap();
    assert_eq!(
        queue.read(&info).unwrap().wait().unwrap(),
        [6, 0, 0, 2, 2, 3, 1]
    );
}

#[test]
fn sources_that_cannot_be_are_explained() {
    let start = |source: Source| {
        Options::new()
            .source(source)
            .start()
            .unwrap_err()
            .to_string()
    };
    let missing: Source = "street=/nowhere/street.mjpeg".parse().unwrap();
    assert!(start(missing).contains("/nowhere/street.mjpeg"));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("x.jpg");
    std::fs::write(&file, b"no picture").unwrap();
    let error = start(format!("x={}", file.display()).parse().unwrap());
    assert!(error.contains("no whole JPEG"), "{error}");
    let error = start(format!("x={}", folder.path().display()).parse().unwrap());
    assert!(error.contains("no file"), "{error}");
    assert!(start(Source::frames("none", Vec::new())).contains("no frames"));
    assert!(start(Source::synthetic("", 1, 1, true)).contains("name"));
    assert!(
        Options::new()
            .start()
            .unwrap_err()
            .to_string()
            .contains("none")
    );
    let twice = Options::new()
        .source(Source::frames("a", three()))
        .source(Source::frames("a", three()));
    assert!(
        twice
            .start()
            .unwrap_err()
            .to_string()
            .contains("two sources")
    );
}

#[test]
fn a_frame_that_does_not_fit_fails_and_says_how_large_it_is() {
    let context = of(Source::frames("camera", three()));
    let mut stream = Stream::new(&context, "camera", 5);
    stream.next().unwrap().wait().unwrap();
    let error = stream.next().unwrap().wait().unwrap_err().to_string();
    assert!(
        error.contains("8 bytes") && error.contains("stream_info"),
        "{error}"
    );
}

#[kernel]
fn double(_acc: &impl Accelerator<1>, mut to: OwnElements<u64>) {
    for (_, to) in to.each() {
        *to *= 2;
    }
}

/// Also what comes from `#[kernel]`s and host tasks.
#[test]
fn other_kernels_are_refused_with_those_that_there_are() {
    let context = context();
    let camera = named(&context, "camera");
    let queue = context.queue(&camera).unwrap();
    let mut buffer = context.buffer(&[1u64, 2]).unwrap();
    let texts = context.program("kernel void f() {}");
    // SAFETY: it never runs.
    let text = unsafe { texts.kernel("f").call(()) };
    for error in [
        queue.launch(2, double(&mut buffer)).unwrap_err(),
        queue.launch(1, text).unwrap_err(),
        queue
            .for_each(&mut buffer, (), |_, it, ()| *it = 0)
            .unwrap_err(),
    ] {
        let text = error.to_string();
        assert!(text.contains("next_frame(inout u64 position"), "{text}");
    }
    let error = camera
        .built_in_kernel("decode_jpeg")
        .unwrap_err()
        .to_string();
    assert!(error.contains("stream_info(out u64 info)"), "{error}");
    // Nor is a kernel launched where it is not.
    let next = camera.built_in_kernel("stream_info").unwrap();
    let pool = context.queue(&context.fastest()).unwrap();
    let error = pool
        .launch(1, next.call((&mut buffer,)))
        .unwrap_err()
        .to_string();
    assert!(error.contains("has no built-in kernels"), "{error}");
    // Everything but kernels is done.
    let task = queue.host_task_with((&mut buffer,), |(buffer,)| buffer[0] = 9);
    task.unwrap().wait().unwrap();
    queue.fill(&buffer.slice(1..).unwrap(), 5u64).unwrap();
    assert_eq!(queue.read(&buffer).unwrap().wait().unwrap(), [9, 5]);
}

#[test]
fn arguments_that_are_not_the_kernels_are_refused() {
    let context = context();
    let queue = context.queue(&named(&context, "camera")).unwrap();
    let next = queue.device().built_in_kernel("next_frame").unwrap();
    let (mut words, mut more) = (
        context.allocate::<u64>(4).unwrap(),
        context.allocate::<u64>(4).unwrap(),
    );
    let mut bytes = context.allocate::<u8>(4).unwrap();
    let calls = [
        queue.launch(1, next.call((&mut words,))),
        queue.launch(1, next.call((&mut words, 1u8, &mut more))),
        queue.launch(1, next.call((&words, &mut bytes, &mut more))),
        queue.launch(1, next.call((words.overwrite(), &mut bytes, &mut more))),
        queue.launch(1, next.call((&mut bytes, &mut words, &mut more))),
        queue.launch(1, next.call((&mut words.clone(), &mut bytes, &mut words))),
    ];
    for call in calls {
        assert!(call.is_err());
    }
}

#[test]
fn such_devices_are_listed_and_never_chosen() {
    let context = context();
    assert_eq!(named(&context, "camera").kind(), DeviceKind::Custom);
    assert_ne!(context.fastest().kind(), DeviceKind::Custom);
    let serial = builder().build().unwrap().device("serial").unwrap();
    let mut devices = vec![
        named(&context, "camera"),
        named(&context, "decoder"),
        serial,
    ];
    assert_eq!(Context::new(&devices).unwrap().fastest(), devices[2]);
    devices.rotate_right(1);
    assert_eq!(Context::new(&devices).unwrap().fastest(), devices[0]);
}
