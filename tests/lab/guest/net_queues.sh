# Queues inside a domain: sourced by net.sh, whose interface near has 10 Mbit a second.

queue_has() { # DOMAIN QUEUE FIELD: of interface near
	local id
	id=$(stat -c %i "$cgroups/$1")
	a net ls --json | jq ".[] | select(.interface == \"near\").queues[] | select(.cgid == $id and .queue == \"$2\").$3"
}
flood_with() { # DOMAIN PORT PRIORITY [MARK]: a sender whose socket has these
	enter_domain "$1" $programs/datagrams send 10.9.0.2 "$2" 1000 0 1 "$3" ${4:+"$4"} &
	pids+=($!)
}
share_of_second() { # NAME LOW HIGH: thousandths that come to port 2, of it and of port 1
	local got
	sleep 0.5
	count 4000 1 2
	got=$(part "$(came 2 bytes)" "$(came 1 bytes)")
	check "$1" "$got of 1000" within "$2" "$got" "$3"
}
says() { # PATTERN ARGUMENT…: aplomb fails with that message
	local pattern=$1
	shift
	! a "$@" 2> $out/said && grep -q "$pattern" $out/said
}

say "queues by priority, 1:4"
a net queue a:slow weight=100 priority=2
a net queue a:fast weight=400 priority=5
check a-queue-is-shown "$(a net ls | grep a:fast)" a_has '^/a:fast  *400 ' net ls
flood_with a 1 2
flood_with a 2 5
share_of_second share-by-priority 790 810
end_all
check both-were-counted "$(queue_has a slow sent_packets)" [ "$(queue_has a slow sent_packets)" -gt 500 ]
check the-domain-counts-them-too "" [ "$(sent_by a sent_packets)" -gt "$(queue_has a fast sent_packets)" ]
a net queue a:slow --remove

say "by mark, beside the domain's other packets, 1:3"
a net queue a:fast weight=300 priority=none mark=0x10
flood a 1 1000
flood_with a 2 5 16
share_of_second share-by-mark 740 760
end_all

say "an interface that is installed later, and one queue for each member (--leaf fifo)"
a net remove near
a net install near --rate 10Mbit --leaf fifo
flood a 1 1000
flood_with a 2 5 16
share_of_second share-by-mark-with-fifo 740 760
end_all
a net remove near
a net install near --rate 10Mbit

say "the mark goes before the priority, and the attachment before both"
a net queue a:slow priority=2
sent() { echo "$(queue_has a slow sent_packets) $(queue_has a fast sent_packets)"; }
before=$(sent)
flood_with a 1 2 16
sleep 0.5
after=$(sent)
first_went() { [ "${before% *}" = "${after% *}" ] && [ "${before#* }" -lt "${after#* }" ]; }
check the-mark-goes-first "slow and fast: $before, then $after" first_went
a net attach a:slow "${pids[0]}"
check an-attachment-goes-before-it "" until_true 2 eval '[ "$(queue_has a slow sent_packets)" -gt "${after% *}" ]'
end_all
a net queue a:slow --remove

say "a running socket is attached"
flood a 1 1000
flood a 2 1000
second=${pids[1]}
share_of_second without-it-both-have-half 490 510
check attach "" a_has '^1 socket is attached to a:fast' net attach a:fast $second
share_of_second share-of-an-attached-socket 740 760
check attached-by-descriptor "" a_has '^1 socket is' net attach a:fast $second:3
check no-socket "$(< $out/said)" says 'descriptor 0' net attach a:fast $second:0
a net queue b:fast
check only-of-its-domain "" says 'is in domain a; a queue of b' net attach b:fast $second
a net queue b:fast --remove
check detach "" a_has '^1 socket is detached' net detach $second
share_of_second share-once-it-is-detached 490 510
end_all

say "a user in another domain has no part in the queue"
a net queue a:fast weight=10000 priority=6 mark=none
before=$(queue_has a fast sent_packets)
flood a 1 1000
enter_domain b "${as_nobody[@]}" $programs/datagrams send 10.9.0.2 2 1000 0 1 6 &
pids+=($!)
share_of_second share-of-the-user 490 510
end_all
after=$(queue_has a fast sent_packets)
check none-of-its-packets-was-there "$before, then $after" [ "$before" = "$after" ]
check a-user-may-not-attach-itself "" eval "as_user timeout 2 $programs/datagrams send 10.9.0.2 2 1000 0 1 $((0xa9100010)) 2>&1 | grep -q SO_PRIORITY"
check a-user-may-not-make-a-queue "" fails as_user /job/aplomb net queue a:mine
check a-user-may-not-attach "" fails as_user /job/aplomb net attach a:fast $$
check locks-are-there "" ls /run/aplomb/lock /run/aplomb/queues.lock
check a-user-cannot-hold-them "" fails as_user sh -c 'cat /run/aplomb/lock || cat /run/aplomb/queues.lock'

say "a queue is moved, and removed under load"
check move "" a net move a:fast b
check it-is-there-with-all "" [ "$(queue_has b fast weight) $(queue_has b fast priority)" = "10000 6" ]
check and-no-more-here "" none "$(queue_has a fast weight)"
a net queue b:fast weight=400
flood_with a 1 6
flood_with b 3 0
flood_with b 2 6
share_of_second share-where-it-is 435 455 # 4/5 of one half, beside one half
end_all
flood b 1 1000
enter_domain b $programs/datagrams send 10.9.0.2 2 1000 5400 1 6 &
pids+=($!)
sleep 0.5
count 3000 2 &
counting=$!
sleep 1
a net queue b:fast --remove
wait $counting
end_all
# 555 of them in 3 s; a sender that was late catches up
check no-packet-is-lost "$(< $out/came.2)" [ "$(came 2 lost)" = 0 ]
check and-all-came "$(came 2 packets)" within 545 "$(came 2 packets)" 570

say "limits of queues"
queues() { a net ls --json | jq '.[] | select(.interface == "near").queues | length'; }
making=()
for n in {1..16}; do
	a net queue a:q$n &
	making+=($!)
done
wait "${making[@]}"
check commands-at-once-lose-nothing "$(queues)" [ "$(queues)" = 16 ]
check sixteen-in-a-domain "" says 'a: the domain has 16 queues already' net queue a:more
a net queue a:q1 priority=3
check one-priority-is-one-queue-s "" says 'queue q2: priority: queue q1 has 3 already' net queue a:q2 priority=3
check a-name-is-checked "" says 'queue: "Q"' net queue a:Q
check the-root-has-none "" says 'the root of the tree has no queues' net queue /:q
all=$(for n in {1..16}; do printf '%sq%s number=%s' "${sep:-}" $n $n; sep='; '; done)
for n in {1..62}; do
	mkdir $cgroups/q$n
	/job/guest-programs/mark $cgroups/q$n trusted.aplomb.net_queues "$all"
done
for n in {1..16}; do a net queue b:q$n; done
check all-are-there "$(queues)" until_true 15 eval '[ $(queues) = 1024 ]'
check 1024-in-all "" says 'there are 1024 queues already' net queue film:more
check the-refused-is-not-written "" none "$(queue_has film more weight)"
rmdir $cgroups/q*
/job/guest-programs/mark $cgroups/b trusted.aplomb.net_queues "voice number=17"
check a-wrong-attribute-is-said "" until_true 5 grep -q 'domain b: trusted.aplomb.net_queues: queue voice: number: "17"' $daemon_log
check and-sets-nothing "$(queues)" until_true 5 eval '[ $(queues) = 16 ]'
check nor-is-it-changed "" says 'b: trusted.aplomb.net_queues: queue voice: number' net queue b:voice
/job/guest-programs/mark $cgroups/b trusted.aplomb.net_queues "voice number=16"
a net queue b:voice --remove
for n in {2..16}; do a net queue a:q$n --remove; done # the last one outlives the daemon
