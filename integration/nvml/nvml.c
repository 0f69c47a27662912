/* NVIDIA's management library, as a file says that the GPUs are; read anew in each call, so that a test can change it at any time.
 *
 * FAKE_NVML names it. Its first line is what nvmlInit answers; each further line is a GPU: what the handle, the utilisation in percent,
 * the memory in MiB and the power in milliwatts answer, and its name. An answer is a figure, `!` and an nvmlReturn_t, or `hang`: the
 * call returns when the file says something else. A GPU that is lost stays so until nvmlInit. Source: NVML API reference. */

#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SUCCESS = 0, INVALID_ARGUMENT = 2, GPU_IS_LOST = 15, UNKNOWN = 999 };
enum { GPUS_MAX = 64 };
enum { INIT = -1 };
enum { HANDLE, UTILIZATION, MEMORY, POWER, FIGURES };

struct utilization { unsigned int gpu, memory; };
struct memory { unsigned int version; unsigned long long total, reserved, free, used; };

/* What the line of a GPU, or the first one, says of a figure; the name goes to `name`. How many GPUs there are is the answer of INIT. */
static int said(int gpu, int figure, unsigned long long *value, char *name) {
    const char *path = getenv("FAKE_NVML");
    FILE *file = path ? fopen(path, "re") : NULL;
    if (!file) {
        perror("FAKE_NVML");
        abort(); /* a test of no GPUs would prove nothing */
    }
    char line[512] = "", words[FIGURES][32] = {"", "", "", ""};
    int read = -1, status = INVALID_ARGUMENT;
    unsigned long long lines = 0;
    for (; fgets(line, sizeof line, file); lines++) {
        if (gpu == INIT && lines == 0)
            read = sscanf(line, "%31s", words[0]);
        else if (gpu != INIT && lines == (unsigned long long)gpu + 1)
            read = sscanf(line, "%31s %31s %31s %31s %95[^\n]", words[0], words[1], words[2], words[3], name);
    }
    fclose(file);
    if (read > figure) {
        const char *word = words[figure];
        if (strcmp(word, "hang") == 0)
            status = -1;
        else if (word[0] == '!')
            status = atoi(word + 1);
        else
            status = SUCCESS, *value = gpu == INIT ? lines - 1 : strtoull(word, NULL, 10);
    }
    return status;
}

static int answer(int gpu, int figure, unsigned long long *value, char *name) {
    int status;
    while ((status = said(gpu, figure, value, name)) == -1)
        nanosleep(&(struct timespec){.tv_nsec = 10 * 1000 * 1000}, NULL);
    return status;
}

static char is_lost[GPUS_MAX];

/* A handle is the number of the GPU, from 1 on. */
static int answer_of(void *device, int figure, unsigned long long *value) {
    char name[96] = "";
    int gpu = (int)(intptr_t)device - 1;
    if (gpu < 0 || gpu >= GPUS_MAX)
        return INVALID_ARGUMENT;
    int status = is_lost[gpu] ? GPU_IS_LOST : answer(gpu, figure, value, name);
    is_lost[gpu] |= status == GPU_IS_LOST;
    return status;
}

int nvmlInit_v2(void) {
    memset(is_lost, 0, sizeof is_lost);
    unsigned long long count;
    return answer(INIT, 0, &count, NULL);
}

int nvmlShutdown(void) { return SUCCESS; }

int nvmlDeviceGetCount_v2(unsigned int *count) {
    unsigned long long value = 0;
    int status = answer(INIT, 0, &value, NULL);
    *count = (unsigned int)value;
    return status;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned int index, void **device) {
    *device = (void *)(intptr_t)(index + 1);
    unsigned long long value;
    return answer_of(*device, HANDLE, &value);
}

int nvmlDeviceGetName(void *device, char *name, unsigned int length) {
    unsigned long long value;
    char own[96] = "";
    int status = answer((int)(intptr_t)device - 1, HANDLE, &value, own);
    snprintf(name, length, "%s", own);
    return status;
}

int nvmlDeviceGetUtilizationRates(void *device, struct utilization *rates) {
    unsigned long long value = 0;
    int status = answer_of(device, UTILIZATION, &value);
    rates->gpu = (unsigned int)value;
    rates->memory = 0;
    return status;
}

/* The version that is asked for is the size of the structure and, in the highest byte, 2. */
int nvmlDeviceGetMemoryInfo_v2(void *device, struct memory *memory) {
    if (memory->version != (sizeof *memory | 2u << 24))
        return UNKNOWN;
    unsigned long long value = 0;
    int status = answer_of(device, MEMORY, &value);
    memory->used = value * 1024 * 1024;
    return status;
}

int nvmlDeviceGetPowerUsage(void *device, unsigned int *milliwatts) {
    unsigned long long value = 0;
    int status = answer_of(device, POWER, &value);
    *milliwatts = (unsigned int)value;
    return status;
}
