/* SPDX-License-Identifier: GPL-2.0 */
/*
 * requests send ADDRESS PORT MEAN_BYTES EACH_S - the answers of a web server, over one connection,
 * until it is killed: EACH_S requests a second on average at random times (Poisson), answers of
 * MEAN_BYTES on average, lognormal. Each run has the same ones. A send that is late makes no later
 * request wait for its time: the program catches up.
 * requests receive PORT MS AFTER_MS - waits for the connection, and for MS from AFTER_MS after that
 * counts what comes. Prints it as a line of JSON: bytes, the answers that were complete, and in us
 * how long after its time an answer was complete: the median, 95 of 100, and the longest. All are 0
 * if no connection comes in that time.
 *
 * Both programs have the same clock.
 */
#define _GNU_SOURCE
#include "lib.h"
#include <arpa/inet.h>
#include <math.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>

/* Of the sizes' logarithms: what Barford and Crovella (SIGMETRICS 1998) fitted to web servers. */
#define SIGMA 1.318
#define SEED 1
#define MAX_ANSWERS 100000

/* What each answer begins with. */
struct head {
	int64_t due;   /* when it was asked for, ns */
	int64_t bytes; /* of the answer, with this */
};

static char data[1 << 20];

/* Above 0, at most 1. */
static double uniform(void)
{
	return 1 - drand48();
}

static double normal(void)
{
	return sqrt(-2 * log(uniform())) * cos(2 * M_PI * uniform());
}

/* An answer larger than @data is sent as one of its size: 1 in 10 million with a mean of 10 kB. */
static int64_t answer_bytes(double mean)
{
	int64_t bytes = mean * exp(SIGMA * normal() - SIGMA * SIGMA / 2);

	if (bytes < (int64_t)sizeof(struct head))
		return sizeof(struct head);
	return bytes < (int64_t)sizeof(data) ? bytes : (int64_t)sizeof(data);
}

static void send_answers(const char *address, int port, double mean, double each_s)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(port) };
	int s = socket(AF_INET, SOCK_STREAM, 0);
	double due;

	if (s < 0 || inet_pton(AF_INET, address, &to.sin_addr) != 1 ||
	    connect(s, (struct sockaddr *)&to, sizeof(to)))
		fail("connect");
	srand48(SEED);
	due = now_ns();
	for (;;) {
		struct head head;

		due -= log(uniform()) / each_s * NS_PER_S;
		head.due = due;
		head.bytes = answer_bytes(mean);
		sleep_until_ns(head.due);
		memcpy(data, &head, sizeof(head));
		for (int64_t sent = 0; sent < head.bytes;) {
			ssize_t n = send(s, data + sent, head.bytes - sent, MSG_NOSIGNAL);

			if (n < 0)
				fail("send");
			sent += n;
		}
	}
}

/* A connection to @port, if one comes within @most_ms; else -1. */
static int connection_at(int port, int64_t most_ms)
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons(port) };
	struct timeval wait = { .tv_sec = most_ms / 1000 + 1 }, patience = { .tv_usec = 100000 };
	int one = 1, l = socket(AF_INET, SOCK_STREAM, 0), s;

	if (l < 0 || setsockopt(l, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) ||
	    bind(l, (struct sockaddr *)&at, sizeof(at)) || listen(l, 1))
		fail("listen");
	/* the timeout is for accept(), too */
	if (setsockopt(l, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait)))
		fail("SO_RCVTIMEO");
	s = accept(l, NULL, NULL);
	if (s < 0 && errno == EAGAIN)
		return -1;
	if (s < 0 || setsockopt(s, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)))
		fail("accept");
	return s;
}

static int by_size(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

/* Of @n times in order, the one that @percent are below, us; 0 if there is none. */
static long at(const int64_t *late, int64_t n, int64_t percent)
{
	int64_t i = n * percent / 100;

	return n ? (long)(late[i < n ? i : n - 1] / NS_PER_US) : 0;
}

/* The answer of which the next byte is one. */
struct answer {
	struct head head;
	int64_t come; /* bytes of it so far */
};

/* Takes bytes of the stream, at most those of one answer, and says how many. */
static int64_t take(struct answer *a, const char *from, int64_t n)
{
	int64_t head = sizeof(a->head);

	if (a->come < head) {
		n = n < head - a->come ? n : head - a->come;
		memcpy((char *)&a->head + a->come, from, n);
	} else if (n > a->head.bytes - a->come)
		n = a->head.bytes - a->come;
	a->come += n;
	return n;
}

static void receive(int port, int64_t ms, int64_t after_ms)
{
	static int64_t late[MAX_ANSWERS];
	int s = connection_at(port, ms + after_ms);
	int64_t begin = now_ns() + after_ms * NS_PER_MS, end = begin + ms * NS_PER_MS;
	int64_t bytes = 0, answers = 0;
	struct answer a = { 0 };

	while (s >= 0 && now_ns() < end) {
		ssize_t n = recv(s, data, sizeof(data), 0);
		int64_t now = now_ns();

		if (n < 0)
			continue;
		if (!n)
			fail("the connection ended");
		bytes += now < begin ? 0 : n;
		for (int64_t taken = 0; taken < n;) {
			taken += take(&a, data + taken, n - taken);
			if (a.come < (int64_t)sizeof(a.head) || a.come < a.head.bytes)
				continue;
			if (now >= begin && answers < MAX_ANSWERS)
				late[answers++] = now - a.head.due;
			a.come = 0;
		}
	}
	qsort(late, answers, sizeof(*late), by_size);
	printf("{\"bytes\":%ld,\"answers\":%ld,\"median_us\":%ld,\"p95_us\":%ld,\"most_us\":%ld}\n",
	       (long)bytes, (long)answers, at(late, answers, 50), at(late, answers, 95),
	       at(late, answers, 100));
}

int main(int count, char **words)
{
	if (count == 6 && !strcmp(words[1], "send"))
		send_answers(words[2], number("PORT", words[3], 1, 65535),
			     number("MEAN_BYTES", words[4], 100, 100000),
			     number("EACH_S", words[5], 1, 10000));
	else if (count == 5 && !strcmp(words[1], "receive"))
		receive(number("PORT", words[2], 1, 65535), number("MS", words[3], 1, 600000),
			number("AFTER_MS", words[4], 0, 600000));
	else {
		fprintf(stderr, "usage: requests send ADDRESS PORT MEAN_BYTES EACH_S | "
				"requests receive PORT MS AFTER_MS\n");
		return 2;
	}
	return 0;
}
