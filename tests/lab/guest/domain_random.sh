# Part of domain_faults.sh and of smp.sh: random changes of domains under load (churn.c). The caller
# sets $alone to the number of domains before.
seconds=${RANDOM_S:-6}
seed=${SEED:-1}

say "random changes for $seconds s, seed $seed"
domain_of r; domain_of r/home
in_domain r/home $hog 4
in_domain r/home $hog 2 --forks
until_true 5 has r/home 8
in_domain r/home /job/guest-programs/storm $((seconds * 1000)) 3 "$seed"
storm=$!
/job/guest-programs/churn $cg/r $((seconds * 1000)) "$seed" > $out/churn
status=$?
check random-changes "seed $seed: $(cat $out/churn)" [ $status = 0 ]
check random-leaves-it-attached "$(state)" attached
storm_ended() { [ ! -d /proc/$storm ]; }
check random-storm-ends "" until_true 20 storm_ended
unset "pids[-1]"
check random-loses-no-process "$(procs_of r/home | wc -l) processes" alive
stuck=$(stuck r/home 2)
check random-all-run "$stuck" none "$stuck"
check random-daemon-goes-on "$(tail -n 1 $daemon_log)" daemon_goes_on
check random-leaves-no-domain "$(domains), were $alone" until_true 3 are_domains $((alone + 2))
end_all
gone r/home r
