// lfarm-worker, with all devices that lfarm knows.
#include <cstdlib>
#include <iostream>

#include "worker/agent/run_worker.h"

int main(int argc, char** argv) {
  const worker::Backend* backends[] = {&worker::cuda_backend(), &worker::cpu_backend()};
  int code = worker::run_worker(argc, argv, backends);
  std::cerr.flush();
  std::_Exit(code);  // threads of the pipeline may still run
}
