# Tests domains under systemd (PID 1): the daemon makes slices and scopes through D-Bus and runs as
# aplomb.service.
. /job/guest/lib.sh
. /job/guest/tree.sh
. /job/guest/units.sh

is_active() { systemctl is-active "$1"; }
property() { systemctl show -P "$2" "$1"; } # UNIT PROPERTY
pid_in() { cut -d: -f3- "/proc/$1/cgroup"; } # PID: its cgroup
ok() { # NAME WORD…: a command that must succeed
	local name=$1 status
	shift
	a "$@" > $out/said.txt 2>&1
	status=$?
	check "$name" "status $status: $(head -n 3 $out/said.txt)" [ $status = 0 ]
}
not_ok() { # NAME STATUS WORD…
	local name=$1 expected=$2 status
	shift 2
	a "$@" > $out/said.txt 2>&1
	status=$?
	check "$name" "status $status: $(head -n 3 $out/said.txt)" [ $status = "$expected" ]
}

say "systemd"
until_true 60 is_active basic.target
check systemd-is-process-1 "$(cat /proc/1/comm), $(now_ms) ms after boot" [ "$(cat /proc/1/comm)" = systemd ]
systemctl list-units --failed --no-legend > $out/failed.txt
install -m 755 /job/aplomb /usr/bin/aplomb
mkdir -p /etc/aplomb /run/systemd/system
printf '[[domain]]\npath = "ready"\nweight = 200\ncpu = "5%%"\n' > /etc/aplomb/aplomb.toml
cp /job/aplomb.service /run/systemd/system/
units_user
systemctl daemon-reload
systemctl start aplomb.service
check service-starts "$(systemctl status aplomb.service --no-pager -n 5 2>&1)" is_active aplomb.service
check service-attaches "$(state)" attached
attached || { journalctl -b --no-pager > $out/journal.txt; finish; exit; }
main=$(property aplomb.service MainPID)
# By openat2(), which some of systemd's restrictions take away.
check finds-programs-by-their-paths "$(journalctl -u aplomb --no-pager | grep -E 'matche' | tail -n 2)" eval 'journalctl -u aplomb --no-pager | grep -q "1 specs, 1 matchers"'
check domain-of-the-settings "$(a domain ls --over 100ms)" field_is ready.slice weight 200
check reservation-of-the-settings "" reserves ready 5

say "create, run, set, move, remove"
ok creates domain create media weight=300 policy=mtr
check is-a-slice "$(property media.slice ActiveState)" [ "$(property media.slice CPUWeight)" = 300 ]
check kernel-side-weight "" until_true 3 field_is media weight 300
check kernel-side-policy "" field_is media policy mtr
ok creates-below domain create media/video weight=50
check is-a-slice-below "" [ -d $cg/media.slice/media-video.slice ]
not_ok creates-once 1 domain create media
ok creates-another domain create other
bg /job/aplomb domain run media -- $hog 1
playing=$!
bg /job/aplomb domain run other -- $hog 1
working=$!
in_scope() { grep -q "^0::/$2/aplomb-.*\.scope$" "/proc/$1/cgroup"; }
check runs-in-a-scope "$(pid_in $playing)" until_true 10 in_scope $playing media.slice
until_true 10 in_scope $working other.slice
ppm=$(share media.slice other.slice 3)
check slices-share "$ppm, 750000 due" within 740000 "$ppm" 760000
ok sets-weight domain set media weight=100
ppm=$(share media.slice other.slice 3)
check weight-changes "$ppm, 500000 due" within 490000 "$ppm" 510000
ok sets-reservation domain set media cpu=50%
ppm=$(share media.slice other.slice 3)
# Due are 75 % if these two are the only domains: 50 % by the reservation, half of the rest by
# weight. Siblings that sleep change the part by weight only.
check reservation-counts "$ppm, at least 725000 due" within 715000 "$ppm" 950000
not_ok too-much 77 domain set other cpu=60%
ok sets-limit domain set other max=10%
check limit-is-set-by-systemd "$(property other.slice CPUQuotaPerSecUSec)" [ "$(property other.slice CPUQuotaPerSecUSec)" = 100ms ]
ppm=$(had other.slice 3)
check limit-holds "$ppm, 100000 due" within 85000 "$ppm" 115000
ok lifts-limit domain set other max=none
ok moves domain move other $playing
modprobe dummy
ip link add wire type dummy
ip link set wire up
kind() { tc -j qdisc show dev wire root | jq -r '.[0].kind'; }
ok orders-packets net install wire --rate 1Mbit
check packets-are-ordered "$(kind)" [ "$(kind)" != noqueue ]
ok weighs-packets domain set media net.weight=300
ok orders-them-no-longer net remove wire
check packets-as-before "$(kind)" [ "$(kind)" = noqueue ]
check moved-to-a-scope "$(pid_in $playing)" in_scope $playing other.slice
not_ok busy-is-not-removed 1 domain remove other
a domain ls --over 100ms > $out/ls.txt
check ls-shows-units "$(tr '\n' '|' < $out/ls.txt)" grep -q 'media-video' $out/ls.txt

say "aplomb run, ephemeral"
program stay plain
bg /job/aplomb run --cpu 5ms/100ms -- $bin/plain
plain=$!
check run-is-admitted "" until_true 10 is_admitted $plain
in_own_scope() { grep -q '^0::/aplomb-.*\.scope$' "/proc/$plain/cgroup"; }
check run-has-a-scope "$(pid_in $plain)" until_true 10 in_own_scope
ok ephemeral-runs domain run --ephemeral short -- true
short_gone() { [ ! -d $cg/short.slice ]; }
check ephemeral-goes "the daemon asks systemd: $(journalctl -u aplomb --no-pager -n 3)" until_true 10 short_gone

say "systemd is executed again"
cat > /run/systemd/system/film.service <<'U'
[Service]
Slice=film.slice
ExecStart=/job/guest-programs/hog 1
ExecStartPost=+/usr/bin/aplomb domain set film.slice cpu=20%% policy=wrr
U
systemctl daemon-reload
systemctl start film.service
check unit-sets-its-own "$(systemctl status film.service --no-pager -n 3 2>&1)" until_true 3 reserves film 20
systemctl daemon-reexec
check reexecuted "$(cat /proc/1/comm)" until_true 30 is_active basic.target
check reexec-keeps-the-daemon "$main" [ "$(property aplomb.service MainPID)" = "$main" ]
check reexec-keeps-weight "$(shown media weight)" field_is media weight 100
check reexec-keeps-reservations "" reserves media 50
check reexec-keeps-policy "" field_is film policy wrr
ok sets-after-reexec domain set media weight=200
check set-after-reexec "$(shown media weight)" until_true 3 field_is media weight 200

say "systemd stops units that hold domains"
systemctl stop film.service
systemctl stop film.slice media-video.slice
is_gone() { [ ! -e $cg/film.slice ] && ! a domain show film --over 100ms; }
check stopped-unit-is-gone "" until_true 5 is_gone
ok room-of-a-removed-domain-is-back domain set other cpu=35%
kill -KILL $working $playing
systemctl stop other.slice
ok other-again domain create other cpu=10% # at once: the daemon sees one slice removed and another made
check other-is-new "$(a domain show other --over 100ms)" until_true 3 reserves other 10
check daemon-goes-on "$(journalctl -u aplomb --no-pager -n 3)" attached

units_protected
units_followed
units_bounded
units_restored
units_killed

say "the daemon starts again"
systemctl start aplomb.service
check restarts "$(systemctl status aplomb.service --no-pager -n 3 2>&1)" attached
check reservations-again "" until_true 3 reserves media 50
check reservations-again-other "" reserves other 10
check units-again "$(protection $own)" until_true 10 all_protected
ok removes domain remove other
ok removes-media domain remove media
check slices-are-gone "$(ls -d $cg/*.slice)" [ ! -d $cg/media.slice ]
systemctl stop aplomb.service
check stock-again "" until_true 5 stock
check knobs-are-back-at-the-end "$(protection $own); $(cat $scale); $(cat /run/aplomb/knobs)" units_are_back
check settings-domain-goes "" until_true 5 test ! -d $cg/ready.slice
check nothing-failed "$(systemctl list-units --failed --no-legend)" none "$(systemctl list-units --failed --no-legend aplomb.service '*.slice' '*.scope')"
systemctl stop plain.service user@1000.service
end_all
journalctl -b --no-pager > $out/journal.txt
finish
