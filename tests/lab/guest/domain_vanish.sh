# Part of domain_faults.sh: cgroups vanish while the daemon sets them up. Reservations of removed
# domains must be given back.
say "cgroups that vanish"
check reserve-then-vanish "$(domain_of v; a domain set /v cpu=60% 2>&1)" reserves v 60
gone v
domain_of w
check room-of-a-removed-domain-is-back "$(a domain set /w cpu=60% 2>&1)" reserves w 60
gone w
# While the daemon is stopped, domains are removed and made again with other attributes.
domain_of v
a domain set /v cpu=30% policy=mtr
kill -STOP $daemon
rmdir $cg/v
for i in 1 2 3 4 5; do
	domain_of v; domain_of v/below; domain_of x
	/job/guest-programs/mark $cg/v/below trusted.aplomb.policy wrr
	/job/guest-programs/mark $cg/x trusted.aplomb.ephemeral 1
	in_domain x true
	wait "${pids[-1]}"
	/job/guest-programs/mark $cg/v trusted.aplomb.cpu $((i * 10))%
	gone v/below v x
done
domain_of v; domain_of x
/job/guest-programs/mark $cg/v trusted.aplomb.cpu 20%
/job/guest-programs/mark $cg/x trusted.aplomb.cpu 60%
rmdir $cg/x
kill -CONT $daemon
in_force() { reserves v 20 && field_is v policy default; }
check domain-made-again-while-daemon-is-stopped "$(a domain show v)" until_true 5 in_force
domain_of w
check no-reserved-room-is-lost "$(a domain set /w cpu=75% 2>&1)" reserves w 75
gone w v
# Commands and the daemon race with rmdir.
: > $out/races
racing=$out/races
chrt -o 0 bash -c "while [ -e $racing ]; do /job/aplomb domain set /v cpu=1% policy=mtr; echo \$?; done" \
	> $out/race1 2> $out/race.log < /dev/null & racer=$!
chrt -o 0 bash -c "while [ -e $racing ]; do /job/aplomb domain run --ephemeral /v -- true; echo \$?; done" \
	> $out/race2 2>> $out/race.log < /dev/null & racer2=$!
for i in $(seq 20); do
	mkdir $cg/v 2> /dev/null
	/job/guest-programs/mark $cg/v trusted.aplomb.cpu $((RANDOM % 90 + 1))%
	sleep 0.0$((RANDOM % 9))
	until_true 1 rmdir $cg/v
done > /dev/null 2>&1
rm $racing
wait $racer $racer2
[ ! -d $cg/v ] || gone v
statuses=$(sort $out/race1 $out/race2 | uniq -c | tr '\n' ';')
check races-end-with-a-known-status "$statuses" none "$(grep -Ev '^(0|1|77)$' $out/race1 $out/race2)$(grep -i panic $out/race.log)"
check daemon-goes-on "$(tail -n 1 $daemon_log)" daemon_goes_on
check vanishing-leaves-no-domain "$(domains), were $alone" until_true 3 are_domains "$alone"
