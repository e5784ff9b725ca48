# Part of domain_faults.sh: which changes of domains an unprivileged user may make, by files, by
# attributes and by commands, without and with a delegated domain.
say "users without a delegated domain"
domain_of mine; domain_of theirs
in_domain theirs $hog 1
root_process=$!
until_true 5 has theirs 2
settings() {
	local dir
	for dir in mine theirs; do
		cat $cg/$dir/cpu.weight $cg/$dir/cpu.max $cg/$dir/cpu.idle $cg/$dir/cgroup.procs
		/job/guest-programs/mark $cg/$dir trusted.aplomb.cpu
		/job/guest-programs/mark $cg/$dir trusted.aplomb.policy
	done 2>&1
}
listed() { a domain ls --over 100ms --json | grep -E '"(path|weight|idle|reservation|fraction|refused|max|share_ppm)":'; }
denied() { # NAME STATUS WORD…: a command of a user fails with STATUS, says why, and changes nothing
	local name=$1 expected=$2 status changed
	shift 2
	as_user timeout 20 "$@" > $out/user.log 2>&1
	status=$?
	check "user-$name" "status $status, expected $expected: $(head -n 2 $out/user.log)" [ $status = "$expected" ]
	check "user-$name-says-why" "$(head -n 2 $out/user.log)" grep -Eiq 'permi|permitted|may not' $out/user.log
	changed=$(settings | diff - $out/settings)
	check "user-$name-changes-nothing" "$changed" none "$changed"
}
refused_all() { # PREFIX of the checks' names
	local eperm=1 eacces=13 before
	before=$(listed)
	denied "$1-weight-file" 2 sh -c "echo 10000 > $cg/mine/cpu.weight"
	denied "$1-max-file" 2 sh -c "echo max > $cg/mine/cpu.max"
	denied "$1-weight" 4 /job/aplomb domain set mine weight=10000
	denied "$1-reservation" 4 /job/aplomb domain set mine cpu=50%
	denied "$1-limit" 4 /job/aplomb domain set mine max=none
	denied "$1-move-others" 4 /job/aplomb domain move mine $root_process
	denied "$1-attribute" $eperm /job/guest-programs/mark $cg/mine trusted.aplomb.cpu 50%
	denied "$1-others-policy" $eacces /job/guest-programs/mark $cg/theirs user.aplomb.policy fifo
	denied "$1-others-limit" 4 /job/aplomb domain set theirs max=10%
	check "user-$1-list-is-unchanged" "" [ "$(listed)" = "$before" ]
}
settings > $out/settings
refused_all plain
denied plain-policy 4 /job/aplomb domain set mine policy=fifo
denied plain-create 4 /job/aplomb domain create mine/sub

say "users with a delegated domain"
chown 65534:65534 $cg/mine $cg/mine/cgroup.{procs,subtree_control,threads}
refused_all delegate
fg "${as_nobody[@]}" /job/aplomb domain create mine/sub weight=300 > $out/user.log 2>&1
check delegate-creates "$(cat $out/user.log)" until_true 3 field_is mine/sub weight 300
as_user /job/aplomb domain create mine/other > $out/user.log 2>&1
check delegate-creates-more "$(cat $out/user.log)" [ -d $cg/mine/other ]
as_user /job/aplomb domain set mine policy=wrr > $out/user.log 2>&1
check delegate-sets-policy "$(cat $out/user.log) $(shown mine policy)" until_true 3 field_is mine policy wrr
in_domain mine/sub "${as_nobody[@]}" $hog 1
own=$!
in_domain mine/other $hog 1
other_root=$!
until_true 5 has mine/sub 2
until_true 5 has mine/other 2
settings > $out/settings
denied delegate-sub-reservation 4 /job/aplomb domain set mine/sub cpu=1%
denied delegate-move-out 4 /job/aplomb domain move theirs $own
denied delegate-move-in 4 /job/aplomb domain move mine/sub $root_process
/job/guest-programs/mark $cg/mine/sub user.aplomb.cpu 50%
check no-such-attribute "$(shown mine/sub reservation)" field_is mine/sub reservation null
ppm=$(share mine theirs 2)
check delegate-has-its-share "$ppm, 500000 due" within 480000 "$ppm" 520000
ppm=$(share mine/sub mine/other 3)
check delegate-weighs-inside "$ppm, 750000 due" within 700000 "$ppm" 800000
as_user /job/aplomb domain move mine/other $own > $out/user.log 2>&1
check delegate-moves-inside "$(cat $out/user.log)" grep -qx "$own" $cg/mine/other/cgroup.procs
/job/guest-programs/mark $cg/mine trusted.aplomb.policy mtr
check policy-set-by-root-precedes "$(shown mine policy)" until_true 3 field_is mine policy mtr
kill -KILL $other_root
end_all
gone mine/sub mine/other mine theirs
check users-leave-no-domain "$(domains), were $alone" until_true 3 are_domains "$alone"
