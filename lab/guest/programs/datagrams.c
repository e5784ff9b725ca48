/* SPDX-License-Identifier: GPL-2.0 */
/*
 * datagrams send ADDRESS PORT SIZE [INTERVAL_US [SEGMENTS [PRIORITY [MARK]]]] - sends datagrams of
 * SIZE bytes until it is killed: as fast as they are taken (INTERVAL_US 0), or one each
 * INTERVAL_US. It hands over SEGMENTS datagrams at once, as one packet that the interface divides
 * (UDP_SEGMENT). Its socket, descriptor 3, has that SO_PRIORITY and SO_MARK, unless they are 0.
 * datagrams flows ADDRESS NUMBER PORT - sends one datagram to each of NUMBER ports, from PORT on.
 * datagrams receive PORT MS [AFTER_MS] - for MS, counts the datagrams that come to PORT, from
 * AFTER_MS on, so that the start of processes is no part of it. Prints them as a line of JSON:
 * packets, bytes, and in us the longest time between two, the sum of the times that each was on its
 * way, and the longest of these (both programs have the same clock). lost: as many as their numbers
 * left out, if there was one sender.
 */
#define _GNU_SOURCE
#include "lib.h"
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>

static char data[65536];

/* The socket @s has this priority and mark; 0: none. */
static void select_by(int s, long priority, long mark)
{
	int of_packets = priority, of_socket = mark;

	if (priority && setsockopt(s, SOL_SOCKET, SO_PRIORITY, &of_packets, sizeof(of_packets)))
		fail("SO_PRIORITY");
	if (mark && setsockopt(s, SOL_SOCKET, SO_MARK, &of_socket, sizeof(of_socket)))
		fail("SO_MARK");
}

static void send_all(int s, const char *address, int port, int size, long interval_us,
		     long segments)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(port) };
	int64_t next = now_ns(), number = 0;

	if (s < 0 || inet_pton(AF_INET, address, &to.sin_addr) != 1 ||
	    connect(s, (struct sockaddr *)&to, sizeof(to)) ||
	    (segments > 1 && setsockopt(s, SOL_UDP, UDP_SEGMENT, &size, sizeof(size))))
		fail("socket");
	for (;;) {
		int64_t now = now_ns();

		for (long i = 0; i < segments; i++) {
			int64_t head[] = { now, number++ };

			memcpy(data + i * size, head, sizeof(head));
		}
		/* ENOBUFS: dropped here. ECONNREFUSED: no receiver at the moment. */
		if (send(s, data, segments * size, 0) < 0 && errno != ENOBUFS &&
		    errno != ECONNREFUSED)
			fail("send");
		if (interval_us) {
			next += interval_us * 1000;
			sleep_until_ns(next);
		}
	}
}

static void send_flows(const char *address, long number, int port)
{
	struct sockaddr_in to = { .sin_family = AF_INET };
	int s = socket(AF_INET, SOCK_DGRAM, 0);

	if (s < 0 || inet_pton(AF_INET, address, &to.sin_addr) != 1)
		fail("socket");
	for (long i = 0; i < number; i++) {
		to.sin_port = htons(port + i);
		if (sendto(s, data, 100, 0, (struct sockaddr *)&to, sizeof(to)) < 0)
			fail("sendto");
	}
}

static void receive(int port, long ms, long after_ms)
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons(port) };
	struct timeval patience = { .tv_usec = 100000 };
	int s = socket(AF_INET, SOCK_DGRAM, 0), room = 4 << 20;
	int64_t begin = now_ns() + after_ms * NS_PER_MS, end = begin + ms * NS_PER_MS;
	int64_t last = begin, gap = 0, most = 0, sum = 0;
	int64_t first = -1, number = -1;
	long packets = 0, bytes = 0;

	if (s < 0 || bind(s, (struct sockaddr *)&at, sizeof(at)) ||
	    setsockopt(s, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) ||
	    setsockopt(s, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof(room)))
		fail("socket");
	while (now_ns() < end) {
		ssize_t n = recv(s, data, sizeof(data), 0);
		int64_t now = now_ns(), head[2];

		if (n < 0 || now < begin)
			continue;
		memcpy(head, data, sizeof(head));
		packets++;
		bytes += n;
		gap = now - last > gap ? now - last : gap;
		most = now - head[0] > most ? now - head[0] : most;
		sum += now - head[0];
		last = now;
		number = head[1];
		first = first < 0 ? number : first;
	}
	printf("{\"packets\":%ld,\"bytes\":%ld,\"gap_us\":%ld,\"sum_us\":%ld,\"most_us\":%ld,"
	       "\"lost\":%ld}\n",
	       packets, bytes, (long)(gap / 1000), (long)(sum / 1000), (long)(most / 1000),
	       packets ? (long)(number - first + 1 - packets) : 0);
}

int main(int count, char **words)
{
	if (count > 4 && !strcmp(words[1], "send")) {
		int s = socket(AF_INET, SOCK_DGRAM, 0);

		select_by(s, argument(count, words, 7, 0), argument(count, words, 8, 0));
		send_all(s, words[2], argument(count, words, 3, 0), argument(count, words, 4, 0),
			 argument(count, words, 5, 0), argument(count, words, 6, 1));
	} else if (count > 4 && !strcmp(words[1], "flows"))
		send_flows(words[2], argument(count, words, 3, 0), argument(count, words, 4, 0));
	else if (count > 3 && !strcmp(words[1], "receive"))
		receive(argument(count, words, 2, 0), argument(count, words, 3, 0),
			argument(count, words, 4, 0));
	else
		fail("send ADDRESS PORT SIZE [INTERVAL_US [SEGMENTS [PRIORITY [MARK]]]] | "
		     "flows ADDRESS NUMBER PORT | receive PORT MS [AFTER_MS]");
	return 0;
}
