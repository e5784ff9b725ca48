# Part of domain_faults.sh: reservations of threaded cgroups, as of a virtual machine's CPUs.
say "threaded cgroups"
program periodic vcpu
mkdir -p $cg/vm/vcpu0 $cg/vm/emu
echo threaded > $cg/vm/vcpu0/cgroup.type
echo threaded > $cg/vm/emu/cgroup.type
a domain set vm/vcpu0 cpu=8ms/20ms > $out/threaded.txt 2>&1
status=$?
check threaded-without-a-controller "$status: $(cat $out/threaded.txt)" [ $status != 0 ]
check threaded-without-a-controller-names-it "$(cat $out/threaded.txt)" grep -q 'vm/vcpu0 has no CPU controller: its parent, vm,' $out/threaded.txt
echo +cpu > $cg/vm/cgroup.subtree_control
a domain set vm/vcpu0 cpu=8ms/20ms > $out/threaded.txt 2>&1
status=$?
check threaded-below-no-reservation "$status: $(cat $out/threaded.txt)" [ $status = 77 ]
check threaded-below-no-reservation-says-so "" grep -q 'nothing is reserved for vm, the domain above it' $out/threaded.txt
a domain set vm cpu=60% > $out/threaded.txt 2>&1
a domain set vm/vcpu0 cpu=8ms/20ms >> $out/threaded.txt 2>&1
check threaded-is-reserved "$(cat $out/threaded.txt) $(shown vm/vcpu0 reservation | tr -d ' ')" \
	eval 'a domain show vm/vcpu0 | grep -q "reserved *8ms/20ms$"'
a domain ls > $out/threaded.txt 2>&1
check threaded-is-listed "$(tr '\n' '|' < $out/threaded.txt)" grep -q 'vcpu0 .*8ms/20ms' $out/threaded.txt
in_thread() { # PATH WORD…: starts an ordinary task in vm, whose thread is then in the threaded cgroup PATH
	local path=$1
	shift
	(
		echo $BASHPID > $cg/vm/cgroup.procs && echo $BASHPID > "$cg/$path/cgroup.threads" || exit 125
		exec chrt -o 0 "$@"
	) > $out/thread.txt 2>&1 < /dev/null &
	pids+=($!)
}
in_thread vm/emu $hog 4
bg $hog 8
sleep 1
in_thread vm/vcpu0 $bin/vcpu 7500 20000 200 brief
wait "${pids[-1]}"
missed=$(value missed "$(cat $out/thread.txt)")
check threaded-has-its-time "$(cat $out/thread.txt)" [ "$missed" -le 2 ]
end_all
until_true 5 empty vm
gone vm/vcpu0 vm/emu vm
check threaded-leaves-no-domain "$(domains), were $alone" until_true 3 are_domains "$alone"
