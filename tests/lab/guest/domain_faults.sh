# Issue 4, section 4: what may happen to domains, and must do no harm: thousands of them, changes at
# random, processes that move in any state, cgroups that vanish, users who want more than they may
# have. One CPU, exact time.
. /job/guest/lib.sh
. /job/guest/tree.sh

start_daemon || { finish; exit; }
alone=$(domains)

for part in ${PARTS:-random moves vanish users limit}; do . "/job/guest/domain_$part.sh"; done

check still-attached "$(state)" attached
stop_daemon
check stock-again "" until_true 5 stock
finish
