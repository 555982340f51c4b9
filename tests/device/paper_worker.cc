// A worker for the paper device alone.
#include <cstdlib>
#include <iostream>

#include "tests/device/paper_backend.h"
#include "worker/agent/run_worker.h"

int main(int argc, char** argv) {
  const worker::Backend* backends[] = {&paper::backend()};
  int code = worker::run_worker(argc, argv, backends);
  std::cerr.flush();
  std::_Exit(code);
}
