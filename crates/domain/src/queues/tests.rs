use super::*;

fn name(text: &str) -> QueueName {
    text.parse().unwrap()
}

#[test]
fn the_last_colon_divides_domain_and_queue() {
    let path = |text: &str| text.parse::<QueuePath>();
    let voice = path("media/a:b:voice").unwrap();
    assert_eq!(voice.domain.to_string(), "media/a:b");
    assert_eq!(voice.name, name("voice"));
    assert_eq!(voice.to_string(), "media/a:b:voice");
    for (text, part) in [
        ("media", "DOMAIN:QUEUE"),
        ("media:", "queue: \"\""),
        ("media:Voice", "queue: \"Voice\""),
        (&format!("media:{}", "x".repeat(33)), "1 to 32"),
        ("../a:voice", "domain: "),
        (":voice", "domain: "),
    ] {
        let e = path(text).unwrap_err();
        assert!(e.contains(part), "{text}: {e}");
    }
}

#[test]
fn changes_are_read() {
    let change = |text: &str| text.parse::<QueueChange>();
    assert_eq!(change("weight=300"), Ok(QueueChange::Weight(300)));
    assert_eq!(change("priority=6"), Ok(QueueChange::Priority(Some(6))));
    assert_eq!(change("priority=none"), Ok(QueueChange::Priority(None)));
    assert_eq!(change("mark=0x10"), Ok(QueueChange::Mark(Some(16))));
    assert_eq!(change("mark=none"), Ok(QueueChange::Mark(None)));
    for (text, part) in [
        ("mark", "KEY=VALUE"),
        ("weight=0", "weight: \"0\""),
        ("weight=10001", "weight: \"10001\""),
        ("priority=0", "priority: \"0\""),
        ("priority=-1", "priority: \"-1\""),
        (
            "priority=0xa9100010",
            "priority: 0xa9100010 is one of those",
        ),
        ("mark=0x", "mark: \"0x\""),
        ("mark=0x+1", "mark: \"0x+1\""),
        ("mark=0x100000000", "mark: "),
        ("port=1", "none of weight, priority, mark"),
    ] {
        let e = change(text).unwrap_err();
        assert!(e.contains(part), "{text}: {e}");
    }
}

#[test]
fn an_attribute_is_read_and_written() {
    let text = "bulk number=2 weight=20; voice number=9 weight=300 priority=6 mark=0x10";
    let queues: Queues = text.parse().unwrap();
    assert_eq!(queues.to_string(), text);
    assert_eq!(queues.len(), 2);
    let unordered: Queues = "v number=1;b mark=16 number=2 \n".parse().unwrap();
    assert_eq!(
        unordered.to_string(),
        "b number=2 weight=100 mark=0x10; v number=1 weight=100"
    );
}

#[test]
fn a_wrong_attribute_is_refused_and_its_field_named() {
    for (text, part) in [
        ("", "\"\" is no name"),
        ("a number=1;", "\"\" is no name"),
        ("a weight=1", "queue a: number: it is missing"),
        ("a number=0", "queue a: number: \"0\""),
        ("a number=17", "queue a: number: \"17\""),
        ("a number=1 weight=x", "queue a: weight: \"x\""),
        (
            "a number=1 weight=1 weight=2",
            "queue a: weight: it is there twice",
        ),
        ("a number=1 size=2", "queue a: \"size\" is none of"),
        ("a number=1; a number=2", "queue a: it is there twice"),
        ("a number=1; b number=1", "queue b: number: queue a has 1"),
        (
            "a number=1 priority=6; b number=2 priority=6",
            "queue b: priority: queue a has 6",
        ),
        (
            "a number=1 mark=1; b number=2 mark=1",
            "queue b: mark: queue a has 0x1",
        ),
        (&"x".repeat(2049), "2048 bytes"),
    ] {
        let e = text.parse::<Queues>().unwrap_err();
        assert!(e.contains(part), "{text}: {e}");
    }
}

#[test]
fn queues_come_change_and_go() {
    let mut queues = Queues::default();
    let (voice, bulk) = (name("voice"), name("bulk"));
    queues
        .change(
            &voice,
            &[QueueChange::Weight(300), QueueChange::Priority(Some(6))],
        )
        .unwrap();
    let number = queues.find(&voice).unwrap().number;
    let e = queues.change(&bulk, &[QueueChange::Priority(Some(6))]);
    assert!(e.unwrap_err().contains("queue voice has 6"));
    assert!(
        queues.find(&bulk).is_none(),
        "a refused change changes nothing"
    );
    queues
        .change(&voice, &[QueueChange::Mark(Some(1))])
        .unwrap();
    let changed = queues.find(&voice).unwrap();
    assert_eq!((changed.weight, changed.priority), (300, Some(6)));
    assert_eq!(changed.number, number);
    let removed = queues.remove(&voice).unwrap();
    assert!(queues.is_empty() && queues.remove(&voice).is_none());
    let mut others = Queues::default();
    others.add(removed.clone()).unwrap();
    assert!(others.add(removed).unwrap_err().contains("voice already"));
}

#[test]
fn a_queue_that_comes_again_has_its_number() {
    let mut queues = Queues::default();
    queues.change(&name("voice"), &[]).unwrap();
    let number = queues.find(&name("voice")).unwrap().number;
    queues.remove(&name("voice"));
    queues.change(&name("voice"), &[]).unwrap();
    assert_eq!(queues.find(&name("voice")).unwrap().number, number);
}

#[test]
fn a_full_domain_has_all_numbers_and_its_text_fits() {
    let mut queues = Queues::default();
    let long = |i: u32| name(&format!("{i:032}"));
    for i in 0..MAX_QUEUES as u32 {
        let most = [
            QueueChange::Weight(10_000),
            QueueChange::Priority(Some(u32::MAX - i)),
            QueueChange::Mark(Some(u32::MAX - i)),
        ];
        queues.change(&long(i), &most).unwrap();
    }
    let e = queues.change(&name("x"), &[]).unwrap_err();
    assert!(e.contains("16 queues already"), "{e}");
    let mut numbers: Vec<_> = queues.iter().map(|q| q.number).collect();
    numbers.sort_unstable();
    assert!(numbers.into_iter().eq(1..=16));
    let text = queues.to_string();
    assert!(text.len() <= MAX_QUEUES_TEXT, "{}", text.len());
    assert_eq!(text.parse(), Ok(queues));
}

#[test]
fn priorities_of_attached_sockets_are_apart() {
    for number in 1..=16 {
        let priority = attached_priority(number);
        assert!(is_attached(priority) && priority & 0xf == 0);
        assert_eq!(priority, 0xa910_0000 + 16 * number);
    }
    for other in [0, 6, 0x10, 0xa90f_fff0, 0xa910_1000] {
        assert!(!is_attached(other), "{other:#x}");
    }
}
