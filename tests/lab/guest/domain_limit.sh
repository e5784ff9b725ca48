# Part of domain_faults.sh: one user takes all domains that it may have; then all places for domains
# (4,096) are taken, and one more. A domain without a place belongs to its parent; removed domains
# give their places back.
say "one user takes all domains that it may have"
user_most=1024
mkdir $cg/own
echo +cpu > $cg/own/cgroup.subtree_control
chown 65534:65534 $cg/own
echo "30000 100000" > $cg/own/cpu.max
before=$(counter limit)
as_user sh -c "cd $cg/own && seq 1 $((user_most + 6)) | xargs -n 64 mkdir"
beyond=$(($(counter limit) - before))
check user-has-its-part "$beyond of $((user_most + 6)) have no domain" [ $beyond = 6 ]
a log --since 60s > $out/log.txt 2>&1
check user-limit-is-logged "$(grep 'as one user may' $out/log.txt | tail -n 1)" grep -q 'as many domains as one user may' $out/log.txt
check daemon-names-the-users-limit "" grep -q "its user has $user_most domains" $daemon_log
mkdir $cg/late
echo "20000 100000" > $cg/late/cpu.max
in_domain late $hog 2
in_domain own/$((user_most + 6)) $hog 2
sleep 1
ppm=$(had late 5)
check later-domain-has-its-limit "$ppm, 200000 due" within 195000 "$ppm" 205000
ppm=$(had own/$((user_most + 6)) 5)
check user-does-not-escape-its-limit "$ppm, 300000 due" within 290000 "$ppm" 310000
end_all
until_true 5 empty own/$((user_most + 6))
find $cg/own -mindepth 1 -type d | chrt -o 0 xargs -n 64 rmdir
chown 0:0 $cg/own
check user-gives-its-places-back "$(domains)" until_true 20 are_domains $((alone + 2))
chown 65534:65534 $cg/own
before=$(counter limit)
as_user sh -c "cd $cg/own && seq 1 $user_most | xargs -n 64 mkdir"
check user-has-its-part-again "$(($(counter limit) - before)) have no domain" [ "$(counter limit)" = "$before" ]
find $cg/own -mindepth 1 -type d | chrt -o 0 xargs -n 64 rmdir
gone late own
check user-leaves-no-domain "$(domains)" until_true 20 are_domains "$alone"

most=$((4096 + 1 - alone)) # $alone counts the domains before, with the root, which needs no place
least=$most

groups=64
fill() { # makes domains until no place is left; prints how many have one, and the one that has none
	local i n=$groups before
	before=$(counter limit)
	for ((i = 0; i < groups; i++)); do mkdir $cg/m$i; echo +cpu > $cg/m$i/cgroup.subtree_control; done
	for ((i = 0; i < least - groups; i++)); do echo $cg/m$((i % groups))/$i; done | chrt -o 0 xargs -n 64 mkdir
	n=$least
	[ "$(counter limit)" = "$before" ] || n="fewer than $least"
	while [ "$(counter limit)" = "$before" ] && [ $n -le $((most + 1)) ]; do
		more=m$((n % (groups - 2) + 2))/more$n
		mkdir $cg/$more
		n=$((n + 1))
	done
	echo "$((n - 1)) $more"
}
clear_all() { find $cg -mindepth 1 -depth -path "$cg/m*" -type d | chrt -o 0 xargs -n 64 rmdir; }

say "all places for domains taken, and one more domain"
from=$(now_ms)
read -r count more <<< "$(fill)"
check domains-up-to-the-limit "$count, in $(($(now_ms) - from)) ms; one more: $more" within "$least" "$count" $most
check all-domains-are-listed "$(domains) with those before, $alone" until_true 20 are_domains $((alone + count))
check settled "$(($(now_ms) - from)) ms after the first" true
a log --since 60s > $out/log.txt 2>&1
check limit-is-logged "$(grep 'all places' $out/log.txt | tail -n 1)" grep -q 'all places are taken' $out/log.txt
a domain show "$more" > $out/show.txt 2>&1
check domain-beyond-the-limit-has-no-place "$(cat $out/show.txt)" grep -q 'beyond a limit' $out/show.txt
above=${more%/*}
first=$(find $cg/$above -mindepth 1 -maxdepth 1 -name '[0-9]*' | head -n 1)
first=${first#"$cg/"}
weigh m1 300
in_domain "$more" $hog 1
in_domain "$first" $hog 1
in_domain m1/1 $hog 1
ppm=$(share m1 "$above" 2)
check shares-at-the-limit "$ppm of m1 beside $above, 750000 due" within 735000 "$ppm" 765000
ppm=$(share "$more" "$first" 2)
check domain-beyond-the-limit-counts-as-its-parents "$ppm of $more beside $first, 500000 due" within 480000 "$ppm" 520000
a domain set /m7 cpu=20% > $out/set.txt 2>&1
check reservation-at-the-limit "$(cat $out/set.txt)" reserves m7 20
end_all
until_true 5 empty "$more"
from=$(now_ms)
clear_all
check all-places-are-free "$(domains); removed in $(($(now_ms) - from)) ms" until_true 20 are_domains "$alone"
from=$(now_ms)
read -r again more <<< "$(fill)"
check limit-is-reached-again "$again, were $count; in $(($(now_ms) - from)) ms" [ "$again" = "$count" ]
check attached-at-the-limit "$(state)" attached
check daemon-goes-on-at-the-limit "$(tail -n 1 $daemon_log)" daemon_goes_on
clear_all
check free-again "$(domains)" until_true 20 are_domains "$alone"
