/* SPDX-License-Identifier: GPL-2.0 */
/*
 * reads FILE SECONDS KB READERS [every MS] [behind N] [cached] [no-ahead] - READERS processes that
 * read KB from FILE, past the page cache (O_DIRECT), at random offsets, one read after the other.
 *
 * cached: through the page cache, from the beginning to the end. no-ahead: without the kernel's
 * readahead.
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

/* What each reader does; times in ns. */
struct plan {
	const char *path;
	size_t bytes;
	int64_t every, behind, end;
	int cached, no_ahead;
};

/* Where the next read begins. */
static off_t next_place(const struct plan *plan, uint64_t places, uint64_t *seed, int64_t nr)
{
	if (plan->cached)
		return (off_t)((uint64_t)nr * (plan->bytes / BLOCK) % places * BLOCK);
	return (off_t)(random_next(seed) % places * BLOCK);
}

static void read_on(const struct plan *plan, uint64_t seed, struct counts *c, int32_t *each_second)
{
	int file = open(plan->path, O_RDONLY | (plan->cached ? 0 : O_DIRECT));
	void *buffer = NULL;

	if (file < 0)
		fail(plan->path);
	if (posix_memalign(&buffer, BLOCK, plan->bytes))
		fail("memory");
	if (plan->no_ahead && posix_fadvise(file, 0, 0, POSIX_FADV_RANDOM))
		fail("posix_fadvise");
	uint64_t places = (uint64_t)(size_of(file) - (int64_t)plan->bytes) / BLOCK + 1;
	int64_t start = now_ns(), due = start, last = start;

	for (int64_t now = due; now < plan->end; now = now_ns()) {
		if (plan->every && now < due) {
			sleep_until_ns(due);
			now = now_ns();
		}
		if (pread(file, buffer, plan->bytes, next_place(plan, places, &seed, c->reads)) !=
		    (ssize_t)plan->bytes)
			fail("pread");
		int64_t done = now_ns(), took = done - now;

		c->reads++;
		c->sum_ns += took;
		if (took > c->longest_ns)
			c->longest_ns = took;
		if (done - last > c->gap_ns)
			c->gap_ns = done - last;
		last = done;
		if (each_second && done < plan->end)
			each_second[(done - start) / NS_PER_S % MOST_SECONDS]++;
		due += plan->every;
		if (plan->every && done > due + plan->behind * plan->every) {
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

/* The number after the word @name; 0 if that word is not there. */
static int64_t option(int count, char **words, const char *name, int64_t least, int64_t most)
{
	int at = flag_at(count, words, name);

	return at && at + 1 < count ? number(name, words[at + 1], least, most) : 0;
}

int main(int count, char **words)
{
	if (count < 5) {
		fprintf(stderr, "usage: reads FILE SECONDS KB READERS [every MS] [behind N] "
				"[cached] [no-ahead]\n");
		return 2;
	}
	int64_t seconds = number("SECONDS", words[2], 1, MOST_SECONDS);
	int64_t end = now_ns() + seconds * NS_PER_S;
	int64_t readers = number("READERS", words[4], 1, MOST_READERS);
	struct plan plan = {
		.path = words[1],
		.bytes = (size_t)number("KB", words[3], 4, 1 << 20) << 10,
		.every = option(count, words, "every", 1, 100000) * NS_PER_MS,
		.behind = option(count, words, "behind", 0, 1000),
		.end = end,
		.cached = has_flag(count, words, "cached"),
		.no_ahead = has_flag(count, words, "no-ahead"),
	};
	struct counts *all, sum = { 0 };
	struct shared *s;

	s = mmap(NULL, sizeof(*s), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (s == MAP_FAILED)
		fail("mmap");
	all = s->counts;
	signal(SIGTERM, on_term);
	for (int64_t i = 0; i < readers; i++) {
		if (fork_bound() == 0) {
			signal(SIGTERM, SIG_DFL);
			read_on(&plan, 0x9e3779b97f4a7c15ULL * (uint64_t)(i + 1), &all[i],
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
	if (plan.every)
		print_seconds(s, seconds);
	printf("}\n");
	return 0;
}
