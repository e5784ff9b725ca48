"""Kato Figs. 13 and 19: what scheduling costs a frame, with 4, 5 and 6 players on one CPU.

The paper reads `stime`. This kernel's stime samples at ticks (VIRT_CPU_ACCOUNTING_GEN is built in, but works on nohz_full CPUs
alone), and leaves out what interrupts and timers take from the idle task, which is where a sleeping player is woken; its
idle time was found to be off by a tenth. So everything is counted by what is left over: `workloads/soak.c` (SCHED_IDLE)
takes the rest of the CPU and counts it, exactly, since on the `timing` machine an instruction is 2 ns. What a second has
beyond that went to programs and kernel, with all interrupts, timers, BPF programs and the daemon. The same without players
("base": ticks, the daemon) is taken off, so that what remains is due to the frames; divided by their number it is the cost
of a frame. What the scheduler costs without any is in the table.

Two players:
- bare: `periodic` with no work, which sleeps until the next frame is due and no more. All its cost is the kernel's: timer,
  wake-up, switch to it and back, system call. This is the scheduling cost of a frame, and is what is judged.
- movie: mplayer with a small H.264 movie. Its decoding costs the same under every scheduler (the same instructions), so
  the difference to SCHED_DEADLINE is the difference in system time: the paper's Fig. 13, whose differences are below 15 us.
"""
from experiments.framework import Experiment, Reservation, Step, at_most
from experiments.framework.experiment import Profile

COUNTS = (4, 5, 6)
RATE = 24
PERIOD_US = 41667
# 6 of 12.2 % are below the load up to which aplomb admits, 80 %.
RESERVED = Reservation(5000, 41000)
PROFILES = {"players": Profile(("/job/periodic:iact:5:41:R:-:-", "/usr/bin/mplayer:iact:5:41:R:-:-"))}
SECONDS = {"base": 10, "bare": 15, "movie": 15}
# Until the players play. mplayer needs more than a second of CPU to start, and has 12 % of it.
SETTLE = {"base": 1, "bare": 3, "movie": 18}
KINDS = ("bare", "movie")
TITLES = {"bare": "a player without work", "movie": "mplayer, H.264 320x136"}
WITHIN = 1.05
MAKE = ("ffmpeg -v error -nostdin -y -f lavfi -i testsrc2=s=320x136:r=24 -t {} -pix_fmt yuv420p -c:v libx264 "
        "-preset superfast -bf 3 -g 96 -crf 23 movie.mkv")
PLAYER = ["mplayer", "-noconfig", "all", "-nolirc", "-noconsolecontrols", "-nosound", "-vo", "null", "movie.mkv"]


def make(scheduler, quick):
    steps = []
    for kind, seconds in SECONDS.items():
        for count in (0,) if kind == "base" else COUNTS[:1] if quick else COUNTS:
            lasts = SETTLE[kind] + seconds + count
            program = PLAYER if kind == "movie" else ["/job/periodic", "0", str(PERIOD_US), "1000000"]
            words = ["overhead", count, SETTLE[kind], seconds, MAKE.format(lasts + 5) if kind == "movie" else "true",
                     *scheduler.prefix(RESERVED), "--", *program]
            steps.append(Step(f"{kind}-{count}", [str(word) for word in words], lasts + (25 if kind == "movie" else 8), "players"))
    return steps


def account(path):
    """The clock in us, turns of soak, ns of a million turns, and CPU time of the players in ns."""
    lines = [line.split() for line in path.read_text().splitlines()]
    clock = next(int(words[1]) for words in lines if words[0] == "clock")
    turns, million = next((int(words[1]), int(words[2])) for words in lines if words[0] == "soak")
    return clock, turns, million, sum(int(words[1]) for words in lines if words[0] == "task")


def read(folder):
    (t0, n0, million, used0), (t1, n1, _, used1) = account(folder / "from"), account(folder / "to")
    seconds = (t1 - t0) / 1e6
    kind, count = folder.name.split("-")
    # A player without work is never late; a movie's player says how many frames it has shown.
    frames = sum(map(int, (folder / "frames").read_text().split())) if kind == "movie" else int(count) * seconds * 1e6 / PERIOD_US
    return {"seconds": seconds, "frames": round(frames, 1), "busy_us_per_s": (seconds * 1e6 - (n1 - n0) * million / 1e9) / seconds,
            "player_us_per_s": (used1 - used0) / 1e3 / seconds}


def cost_us(steps, name):
    """What a frame costs, in us; None if it was not measured."""
    step, base = steps.get(name), steps.get("base-0")
    return (step["busy_us_per_s"] - base["busy_us_per_s"]) * step["seconds"] / step["frames"] if step and base else None


def judge(samples):
    marks = []
    for count in COUNTS:
        name = f"bare-{count}"
        ours, theirs = (cost_us(samples.get(scheduler, {}), name) for scheduler in ("aplomb", "deadline"))
        if ours is not None:
            marks.append(at_most(f"scheduling cost of a frame, {count} players, at most {WITHIN} x SCHED_DEADLINE's", round(ours, 2),
                                 WITHIN * theirs if theirs else None, "us"))
    return marks


def table(samples):
    rows = []
    for name in dict.fromkeys(name for steps in samples.values() for name in steps if name != "base-0"):
        kind, count = name.split("-")
        base = cost_us(samples.get("deadline", {}), name)
        for scheduler, steps in samples.items():
            if (cost := cost_us(steps, name)) is not None:
                rows.append([TITLES[kind], int(count), scheduler, round(steps[name]["frames"]), cost, cost - base if base else None,
                             cost / base if base else None, steps["base-0"]["busy_us_per_s"]])
    return ["player", "players", "scheduler", "frames", "cost us a frame", "more than SCHED_DEADLINE us", "x SCHED_DEADLINE",
            "without players us a second"], rows


def draw(samples):
    from experiments.framework import plot
    figure, axes = plot.grid(1, len(KINDS), 4.4, 2.8)
    for axis, kind in zip(axes, KINDS):
        width = 0.8 / len(samples)
        for number, (scheduler, steps) in enumerate(samples.items()):
            shown = {count: cost for count in COUNTS if (cost := cost_us(steps, f"{kind}-{count}")) is not None}
            axis.bar([count + (number - (len(samples) - 1) / 2) * width for count in shown], shown.values(), width * 0.9,
                     label=plot.title(scheduler), color=plot.colour(scheduler))
        axis.set_xticks(COUNTS)
        axis.set_xlabel("players")
        axis.set_ylabel("us a frame")
        axis.set_title(TITLES[kind] + (": scheduling alone" if kind == "bare" else ": with decoding"))
    figure.suptitle("What a frame costs the machine", fontsize=10)
    plot.one_legend(figure, axes, 3)
    return figure


EXPERIMENT = Experiment(
    title="What scheduling costs a frame", figure="Kato, Figs. 13 and 19",
    about=f"{', '.join(map(str, COUNTS))} players of {RATE} frames a second, each with {RESERVED} ms reserved, beside a task of the lowest "
          "priority that counts what they leave.",
    steps=make, read=read, judge=judge, table=table, draw=draw, schedulers=("eevdf", "deadline", "aplomb"),
    quick_schedulers=("eevdf", "deadline", "aplomb"), profiles=PROFILES,
    settings={"reservation_ms": str(RESERVED), "seconds": SECONDS, "settle_s": SETTLE, "movie": MAKE})
