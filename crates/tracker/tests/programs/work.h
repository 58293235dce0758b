// Allocations that every program of this folder makes in the same way, counted by the program itself.
#pragma once
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static long made; // allocations of work(), by this process's own count

#define KEEP(block) __asm__ volatile("" ::"r"(block) : "memory")

__attribute__((unused, noinline)) static void work(int count) {
    void *held[64] = {0};
    for (int i = 0; i < count; i++) {
        free(held[i & 63]);
        held[i & 63] = malloc(30000 + i % 50);
        KEEP(held[i & 63]);
    }
    for (int i = 0; i < 64; i++) free(held[i]);
    __atomic_add_fetch(&made, count, __ATOMIC_RELAXED);
}
