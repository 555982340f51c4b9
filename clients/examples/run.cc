// Runs a model once on ones: run MODEL.pt2 SIZE... (one float32 input of these sizes).
#include <cstdio>
#include <exception>
#include <lfarm.hpp>

int main(int argc, char** argv) {
  if (argc < 2) return std::fprintf(stderr, "usage: run MODEL.pt2 SIZE...\n"), 2;
  std::vector<std::int64_t> shape;
  std::size_t elements = 1;
  for (int k = 2; k < argc; ++k) {
    shape.push_back(std::stoll(argv[k]));
    elements *= static_cast<std::size_t>(shape.back());
  }
  std::vector<float> input(elements, 1.0F);
  try {
    lfarm::Session session;
    lfarm::Instance instance = session.load(argv[1]).instance();
    lfarm::Outputs outputs = instance({{input.data(), shape}});
    std::printf("output 0: rank %d, first element %g\n", outputs[0]->ndim,
                static_cast<double>(outputs.data<float>(0)[0]));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "run: %s\n", error.what());
    return 1;
  }
  return 0;
}
