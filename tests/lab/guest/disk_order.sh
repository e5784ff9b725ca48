# Tests the order of a disk's requests: shares of domains, interactive programs first, no park
# without contention, and what is as it was afterwards. One CPU, a disk of 400 requests a second,
# four at a time.
. /job/guest/lib.sh

mkdir -p $cgroups/load $cgroups/more /etc/aplomb
cp "$programs/reads" $bin/film
spec film 5ms/40ms 'inherit = true' 'revocable = true' # a child of it reads
printf '[disk]\norder = true\n' > /etc/aplomb/aplomb.toml
start_daemon || { finish; exit; }
parks() { a domain show "$1" --json | jq '[.. | .parked? // empty | .[] | select(.reason == "disk") | .times] | add // 0'; }
# DOMAIN SECONDS READERS: random readers of 4 kB there; $! and the file $out/DOMAIN.json
readers() {
	( enter_domain "$1" $programs/reads /dev/disk0 "$2" 4 "$3" > "$out/$1.json" 2> "$out/$1.log" ) &
}
reads_of() { jq .reads "$out/$1.json"; }

say "one group alone is not held"
readers load 4 6
wait $!
alone=$(reads_of load)
check the-whole-disk "$alone reads in 4 s" within 1550 "$alone" 1610
check no-park "$(parks load)" [ "$(parks load)" = 0 ]
a log > $out/log
check nobody-watches "" eval '! grep -q "disks are watched" $out/log'

say "domains have their shares"
a domain set load io=20%
a domain set more io=60%
check it-is-shown "$(a domain show more)" eval 'a domain show more | grep -q "^disks *60%"'
check too-much-is-refused "$(a domain set load io=30% 2>&1)" eval '! a domain set load io=30%'
readers load 12 6
both=$!
readers more 12 6
wait $both $!
sum=$(($(reads_of load) + $(reads_of more)))
part=$(($(reads_of more) * 1000 / sum))
check shares "$(reads_of load) and $(reads_of more)" within 720 $part 780
check the-disk-is-busy "$sum reads in 12 s" within 4550 $sum 4830
check parks-are-counted "$(parks load)" [ "$(parks load)" -gt 20 ]
a log > $out/log
check the-log-says-why "" grep -q "by a disk, whose turn was others'" $out/log
check and-that-disks-are-watched "" grep -q "disks are watched" $out/log
a domain set load io=none
a domain set more io=none

say "an interactive program goes first"
readers load 14 12
load=$!
sleep 2
bg_to $out/film.json $bin/film /dev/disk0 10 64 1 every 40
sleep 1
prio() { ionice -p "$(pgrep -x "$1" | head -n 1)"; } # NAME
has_prio() { prio "$1" | grep -q "$2"; }             # NAME WORDS
check it-has-its-priority "$(prio film)" has_prio film "realtime: prio 5"
wait $load
film=$(cat $out/film.json)
check a-film-is-in-time "$film" [ "$(jq .late $out/film.json)" -le 5 ]
check the-load-goes-on "$(cat $out/load.json)" [ "$(reads_of load)" -gt 1500 ]

say "what it starts does not"
# the shell has a spec, and the reader inherits its priority, but not its reservation
cp "$(command -v bash)" $bin/shell
spec shell 5ms/100ms
a reload
printf '%s/reads /dev/disk0 8 4 1 > /dev/null; true\n' $programs > $out/script
bg $bin/shell $out/script
until_true 5 pgrep -x reads
check a-child-loses-the-priority "$(prio reads)" until_true 5 has_prio reads none
end_all

say "a reader at the gate can be killed"
a domain set more io=60%
readers load 20 6
load=$!
readers more 20 6
before=$(parks load)
more_parks() { [ "$(parks load)" -gt $((before + 10)) ]; }
check it-is-parked "" until_true 10 more_parks
pkill -KILL -x reads
check it-ends-at-once "" until_true 1 eval '! pgrep -x reads'
wait $load

say "shares can be changed"
check as-it-is "$(a disk class)" eval 'a disk class | grep -q "soft-real-time 40, interactive 40, rest 20"'
a disk class rest=30 interactive=60
a disk round 500ms
check as-it-was-set "$(a disk class)" eval 'a disk class | grep -q "round 500ms; .* interactive 60, rest 30"'
check a-user-may-not "$(as_user /job/aplomb disk round 1s 2>&1)" eval '! as_user /job/aplomb disk round 1s'
check a-user-is-not-real-time "$(as_user /job/aplomb run --io soft-real-time -- true 2>&1)" eval '! as_user /job/aplomb run --io soft-real-time -- true'
bg /job/aplomb run --io soft-real-time:40ms -- sleep 20
check but-root-is "$(prio sleep)" until_true 5 has_prio sleep "realtime: prio 1"
a disk stop disk0
readers more 3 2
wait $!
check a-stopped-disk-is-shown "$(a disk class)" eval 'a disk class | grep -q "not ordered: disk0"'
a disk start disk0
end_all

say "no priority outlives the daemon"
bg $bin/film /dev/disk0 300 4 1 every 40 # longer than the verifier takes
sleep 1
check it-has-one "$(prio film)" has_prio film realtime
kill -KILL $daemon
wait $daemon 2> /dev/null
check stock-after-the-kill "" until_true 5 stock
check a-killed-daemon-leaves-it "$(prio film)" has_prio film realtime
check restore-puts-it-back "$(a restore 2>&1)" has_prio film none
daemon=
start_daemon
sleep 1
check the-next-gives-it-again "$(prio film)" has_prio film realtime
check its-own-files-are-no-specs "$(tail -n 3 $daemon_log)" eval '! grep -q reloaded $daemon_log'
stop_daemon
check the-end-takes-it "$(prio film)" has_prio film none
end_all
check stock-again "" until_true 5 stock
finish
