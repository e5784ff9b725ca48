/* SPDX-License-Identifier: GPL-2.0 */
/*
 * reads FILE SECONDS KB READERS [every MS] [behind N] - READERS processes that read KB from FILE,
 * past the page cache (O_DIRECT), at random offsets, one read after the other.
 *
 * every MS: a reader begins a read each MS: a stream, or a film. Its read is late if it is not done
 * when the next one is due; then that one begins at once. behind N: it is late only when N are due
 * that are not done: it has a buffer of so many.
 *
 * Ends after SECONDS. SIGTERM ends it sooner. Prints one line of JSON: reads done, how many were
 * late, the longest, the sum of all, us; with every MS also the reads of the first reader that were
 * done in each whole second, the least of these, and its longest time without a read done, us.
 */
#define _GNU_SOURCE /* O_DIRECT */
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "lib.h"

#define MOST_READERS 1000
#define BLOCK 4096
#define MOST_SECONDS 3600

struct counts {
	int64_t reads, late, longest_ns, sum_ns, gap_ns;
	int64_t fill[3]; /* to a cache line */
};

struct shared {
	int32_t each_second[MOST_SECONDS]; /* of the first reader */
	struct counts counts[MOST_READERS];
};

static volatile sig_atomic_t ended;

static void on_term(int signal)
{
	ended = 1;
}

static uint64_t random_next(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

/* The size of a file or a disk, bytes. */
static int64_t size_of(int file)
{
	int64_t size = lseek(file, 0, SEEK_END);

	if (size < 0)
		fail("lseek");
	return size;
}

static void read_on(const char *path, size_t bytes, int64_t every, int64_t behind, int64_t end,
		    uint64_t seed, struct counts *c, int32_t *each_second)
{
	int file = open(path, O_RDONLY | O_DIRECT);
	void *buffer = NULL;

	if (file < 0)
		fail(path);
	if (posix_memalign(&buffer, BLOCK, bytes))
		fail("memory");
	uint64_t places = (uint64_t)(size_of(file) - (int64_t)bytes) / BLOCK + 1;
	int64_t start = now_ns(), due = start, last = start;

	for (int64_t now = due; now < end; now = now_ns()) {
		if (every && now < due) {
			sleep_until_ns(due);
			now = now_ns();
		}
		if (pread(file, buffer, bytes, (off_t)(random_next(&seed) % places * BLOCK)) !=
		    (ssize_t)bytes)
			fail("pread");
		int64_t done = now_ns(), took = done - now;

		c->reads++;
		c->sum_ns += took;
		if (took > c->longest_ns)
			c->longest_ns = took;
		if (done - last > c->gap_ns)
			c->gap_ns = done - last;
		last = done;
		if (each_second && done < end)
			each_second[(done - start) / NS_PER_S % MOST_SECONDS]++;
		due += every;
		if (every && done > due + behind * every) {
			c->late++;
			due = done;
		}
	}
	_exit(0);
}

/* What a viewer sees of the first reader. */
static void print_seconds(const struct shared *s, int64_t seconds)
{
	int32_t least = INT32_MAX;

	for (int64_t i = 0; i < seconds; i++)
		if (s->each_second[i] < least)
			least = s->each_second[i];
	printf(", \"longest_gap_us\": %lld, \"worst_second\": %d, \"each_second\": [",
	       (long long)(s->counts[0].gap_ns / NS_PER_US), least);
	for (int64_t i = 0; i < seconds; i++)
		printf("%s%d", i ? ", " : "", s->each_second[i]);
	printf("]");
}

int main(int count, char **words)
{
	if (count < 5) {
		fprintf(stderr, "usage: reads FILE SECONDS KB READERS [every MS] [behind N]\n");
		return 2;
	}
	int64_t seconds = number("SECONDS", words[2], 1, MOST_SECONDS);
	int64_t end = now_ns() + seconds * NS_PER_S;
	size_t bytes = (size_t)number("KB", words[3], 4, 1 << 20) << 10;
	int64_t readers = number("READERS", words[4], 1, MOST_READERS);
	int at = flag_at(count, words, "every");
	int64_t every = at && at + 1 < count ? number("MS", words[at + 1], 1, 100000) : 0;
	int64_t behind;
	struct counts *all, sum = { 0 };
	struct shared *s;

	at = flag_at(count, words, "behind");
	behind = at && at + 1 < count ? number("N", words[at + 1], 0, 1000) : 0;
	s = mmap(NULL, sizeof(*s), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (s == MAP_FAILED)
		fail("mmap");
	all = s->counts;
	signal(SIGTERM, on_term);
	for (int64_t i = 0; i < readers; i++) {
		if (fork_bound() == 0) {
			signal(SIGTERM, SIG_DFL);
			read_on(words[1], bytes, every * NS_PER_MS, behind, end,
				0x9e3779b97f4a7c15ULL * (uint64_t)(i + 1), &all[i],
				i ? NULL : s->each_second);
		}
	}
	while (!ended && now_ns() < end)
		sleep_until_ns(now_ns() + 20 * NS_PER_MS);
	for (int64_t i = 0; i < readers; i++) {
		sum.reads += all[i].reads;
		sum.late += all[i].late;
		sum.sum_ns += all[i].sum_ns;
		if (all[i].longest_ns > sum.longest_ns)
			sum.longest_ns = all[i].longest_ns;
	}
	printf("{\"reads\": %lld, \"late\": %lld, \"longest_us\": %lld, \"sum_us\": %lld",
	       (long long)sum.reads, (long long)sum.late, (long long)(sum.longest_ns / NS_PER_US),
	       (long long)(sum.sum_ns / NS_PER_US));
	if (every)
		print_seconds(s, seconds);
	printf("}\n");
	return 0;
}
