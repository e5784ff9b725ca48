//! Tests of the program `aplomb-sim`: its numbers do not depend on the number of cores, and it
//! reports the end of a worker.

use std::process::{Command, Output};

fn study(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_aplomb-sim"))
        .args(args)
        .output()
        .unwrap()
}

const SMALL: [&str; 10] = [
    "schedulability",
    "--sets",
    "12",
    "--length",
    "1s",
    "--workload",
    "60,90",
    "--range",
    "10-100",
    "--json",
];

#[test]
fn cores_do_not_change_results() {
    let with = |jobs| study(&[&SMALL[..], &["--jobs", jobs]].concat());
    let (one, three) = (with("1"), with("3"));
    assert!(one.status.success(), "{one:?}");
    assert_eq!(one.stdout, three.stdout);
    let result: serde_json::Value = serde_json::from_slice(&one.stdout).unwrap();
    assert_eq!(result["points"].as_array().unwrap().len(), 2);
    assert_eq!(result["columns"][1], "global-edf-soft");
    let success = |point: usize, column: usize| {
        let value = &result["points"][point]["success"][column];
        value.as_f64().unwrap()
    };
    for column in 1..8 {
        assert!(
            success(0, column) >= success(1, column),
            "more load is not easier"
        );
    }
    assert_eq!(
        success(0, 2),
        success(0, 4),
        "first-fit: played as analysed"
    );
    assert_eq!(
        success(1, 3),
        success(1, 5),
        "worst-fit: played as analysed"
    );
    assert_eq!(result["columns"][6], "test-wm");
    assert!(success(1, 6) > success(1, 5), "splitting lets in more");
    assert!(success(0, 7) <= success(0, 1), "global EDF does no worse");
}

#[test]
fn movies_are_played() {
    let shown = study(&[
        "movies",
        "--count",
        "4",
        "--length",
        "3s",
        "--schedulers",
        "wrr,eevdf",
    ]);
    let table = String::from_utf8(shown.stdout).unwrap();
    assert_eq!(table.lines().count(), 3, "{table}");
    assert!(table.lines().nth(1).unwrap().contains("wrr"), "{table}");
}

#[test]
fn mistakes_are_told() {
    for (args, words) in [
        (
            &["movies", "--trace", "/nowhere.csv", "--length", "1s"][..],
            "/nowhere.csv",
        ),
        (&["movies", "--reserve", "50ms/41ms"][..], "at most T"),
        (&["schedulability", "--schedulers", "cfs"][..], "eevdf"),
        (&["schedulability", "--range", "50-10"][..], "FROM-TO"),
    ] {
        let out = study(args);
        let said = String::from_utf8_lossy(&out.stderr).into_owned();
        assert!(
            !out.status.success() && said.contains(words),
            "{args:?}: {said}"
        );
    }
}
