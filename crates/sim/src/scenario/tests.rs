//! Scenario files: their meaning, and the messages for mistakes.

use super::*;

fn parse(text: &str) -> Result<Scenario, String> {
    Scenario::parse(Path::new("a.toml"), text).map_err(|e| e.to_string())
}

fn aplomb(traced: bool) -> Options {
    Options {
        scheduler: "aplomb".parse().unwrap(),
        seed: None,
        traced,
    }
}

const MOVIE: &str = r#"
length = "4s"
[[task]]
name = "movie"
work = "5ms"
period = "40ms"
reserve = "6ms/40ms"
[[task]]
name = "bomb"
count = 10
start = "1s"
"#;

#[test]
fn a_movie_plays_through_a_bomb() {
    let mut progress = Vec::new();
    let report = parse(MOVIE)
        .unwrap()
        .play(aplomb(true), |ns| progress.push(ns));
    assert_eq!(progress.last(), Some(&4_000_000_000));
    let (movie, bomb) = (&report.tasks[0], &report.tasks[1]);
    assert_eq!((movie.jobs, movie.missed, movie.admitted), (100, 0, 1));
    assert!((124_000..126_000).contains(&movie.share_ppm), "{movie:?}");
    assert!(
        (655_000..657_000).contains(&bomb.share_ppm),
        "3 of 4 s, and the movie's eighth off: {bomb:?}"
    );
    let table = report.table();
    assert!(
        table.lines().nth(1).unwrap().starts_with("movie"),
        "{table}"
    );
    let svg = report.svg();
    assert!(svg.starts_with("<svg") && svg.ends_with("</svg>\n") && svg.contains(">bomb<"));
}

#[test]
fn without_a_reservation_the_movie_misses_frames() {
    let report = parse(&MOVIE.replace("reserve = \"6ms/40ms\"", ""))
        .unwrap()
        .play(aplomb(false), |_| {});
    assert!(report.tasks[0].missed > 0, "{}", report.table());
}

#[test]
fn a_mistake_is_refused_and_named() {
    for (text, words) in [
        ("length = \"1s\"", "no [[task]]"),
        ("length = \"1s\"\nspeed = 3\n", "line 2"),
        ("length = \"soon\"\n", "line 1"),
        (
            "cpus = 2000\nlength = \"1s\"\n[[task]]\nname = \"a\"",
            "1 to 1024",
        ),
        ("length = \"0s\"\n[[task]]\nname = \"a\"", "length"),
        (
            "length = \"1s\"\n[[task]]\nname = \"a\"\nwork = \"1ms\"",
            "task \"a\": give work and period",
        ),
        (
            "length = \"1s\"\n[[task]]\nname = \"a\"\nwork = \"1ms\"\nperiod = \"2ms\"\nrandom = true",
            "task \"a\": give work and period",
        ),
        (
            "length = \"1s\"\n[[task]]\nname = \"a\"\nextra = \"1ms\"",
            "extra goes with work",
        ),
        (
            "length = \"1s\"\n[[task]]\nname = \"a\"\nbomb = 200000",
            "at most 100000",
        ),
        (
            "length = \"1s\"\n[[task]]\nname = \"a\"\ntrace = \"no.csv\"\nperiod = \"2ms\"",
            "task \"a\": no.csv: ",
        ),
        (
            "length = \"1s\"\n[[task]]\nname = \"a\"\nnice = 20",
            "-20 to 19",
        ),
        (
            "length = \"1s\"\n[[task]]\nname = \"a\"\ncpus = [1]",
            "no CPU 1",
        ),
        (
            "length = \"1s\"\n[[task]]\nname = \"a\"\nreserve = \"5ms\"",
            "C/T",
        ),
        (
            "length = \"1s\"\n[[task]]\nname = \"a\"\nreserve = \"5ms/1ms\"",
            "at most T",
        ),
        (
            "length = \"1s\"\n[[task]]\nname = \"a\"\ncount = 200000",
            "at most 100000",
        ),
        (
            "length = \"1s\"\n[[task]]\nname = \"a\"\nwork = \"2ms\"\nperiod = \"1ms\"",
            "more than period",
        ),
        (
            "length = \"1s\"\n[[task]]\nname = \"a\"\non = \"0ms\"\noff = \"1ms\"",
            "more than 0",
        ),
    ] {
        let error = parse(text).unwrap_err();
        assert!(
            error.starts_with("a.toml: ") && error.contains(words),
            "{text:?}: {error}"
        );
    }
    assert!(matches!(
        Scenario::read(Path::new("/nowhere")),
        Err(ScenarioError::Read(..))
    ));
}

#[test]
fn weights_of_nice_values_are_those_of_the_kernel() {
    let weight = |nice: i32| {
        let text = format!("length = \"1s\"\n[[task]]\nname = \"a\"\nnice = {nice}");
        parse(&text).unwrap().task[0].weight()
    };
    assert_eq!([-20, 0, 5, 19].map(weight), [8668, 100, 33, 1]);
}

const ALL: &str = r#"
cpus = 2
length = "3s"
seed = 7
[[task]]
name = "sporadic"
work = "1ms"
period = "20ms"
extra = "10ms"
reserve = "2ms/20ms"
[[task]]
name = "burst"
work = "1ms"
period = "50ms"
burst = 4
[[task]]
name = "movie"
trace = "synthetic-h264"
period = "41ms"
mean = "10ms"
peak = "20ms"
drop-after = 3
reserve = "12ms/41ms"
guaranteed = true
[[task]]
name = "bomb"
bomb = 10
start = "1s"
[[task]]
name = "noise"
random = true
count = 2
"#;

#[test]
fn every_scheduler_plays_every_kind() {
    for name in [
        "aplomb",
        "aplomb-redline",
        "global-edf-hard",
        "global-edf-fcbs",
        "partitioned-wf",
        "eevdf",
        "wrr",
    ] {
        let play = |seed| {
            let options = Options {
                scheduler: name.parse().unwrap(),
                seed,
                traced: true,
            };
            parse(ALL).unwrap().play(options, |_| {})
        };
        let report = play(None);
        let [sporadic, burst, movie, bomb, noise] = &report.tasks[..] else {
            panic!("{report:?}");
        };
        assert!((100..=151).contains(&sporadic.jobs), "{sporadic:?}");
        assert!((200..=240).contains(&burst.jobs), "{burst:?}");
        assert!((40..=74).contains(&movie.jobs), "{movie:?}");
        assert_eq!((bomb.tasks, noise.tasks), (10, 2), "children count");
        let sum: u64 = report.tasks.iter().map(|t| t.share_ppm).sum();
        assert!((1_200_000..=2_000_000).contains(&sum), "{name}: {sum}");
        assert!(report.names.iter().all(|n| !n.is_empty()));
        assert!(
            play(Some(7)).trace == report.trace,
            "the scenario's seed is 7"
        );
        assert!(play(Some(8)).trace != report.trace);
    }
}
