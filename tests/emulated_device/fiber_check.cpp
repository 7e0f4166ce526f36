// Goes between stacks and checks that what belongs to each is kept. Built by test_emulated_device_fibers.py with the switch in
// assembly and with the portable one. Prints what it saw.
#include <cstdio>
#include <cstring>

#include "driver/fiber.h"

using emulator::Fiber;

namespace {

Fiber native;
Fiber* fibers[50];
int turn = 0, wrong = 0;
long total = 0;

void body() {
    emulator::fiber::arrived();
    const int self = turn;
    double real = self + 0.5;
    long whole = 1000 + self;
    char room[3000];
    std::memset(room, self, sizeof room);
    wrong += reinterpret_cast<uintptr_t>(__builtin_frame_address(0)) % 16 != 0;
    for (int round = 0; round < 100; ++round) {
        emulator::fiber::go(*fibers[self], native);
        for (char one : room) wrong += one != static_cast<char>(self);
        wrong += whole != 1000 + self + round || real != self + 0.5 + round;
        whole += 1;
        real += 1;
        total += whole;
    }
    emulator::fiber::leaving(*fibers[self]);
}

}  // namespace

int main() {
    for (int again = 0; again < 2; ++again) {  // the second time with stacks from the pool
        for (Fiber*& fiber : fibers) fiber = emulator::fiber::take(body, native);
        for (int round = 0; round <= 100; ++round)
            for (turn = 0; turn < 50; ++turn) {
                const int next = turn;
                emulator::fiber::go(native, *fibers[next]);
                turn = next;
            }
        emulator::fiber::forget_all();
    }
    const auto* low = reinterpret_cast<const char*>(fibers[7]->stack);
    const bool below = emulator::fiber::overflowed(reinterpret_cast<uintptr_t>(low - 1));
    const bool inside = emulator::fiber::overflowed(reinterpret_cast<uintptr_t>(low));
    std::printf("wrong %d total %ld below %d inside %d bytes %zu\n", wrong, total, below, inside, emulator::fiber::stack_bytes());
    return 0;
}
