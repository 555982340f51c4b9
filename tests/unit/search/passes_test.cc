// If these fail, `lfarm print` does not say which loops a kernel's tiling stands for.
#include "coordinator/search/passes/passes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "common/ir/hlir/builder.h"

namespace coordinator {
namespace {

using common::DType;
using common::GraphBuilder;
using common::InputKind;

std::string nests_of(common::Graph graph, const char* target) {
  Compilation compilation(std::move(graph), {target}, Numerics::kStrict);
  const auto list = passes();
  const auto nests =
      std::find_if(list.begin(), list.end(), [](const Pass& pass) { return pass.name == "nests"; });
  return nests == list.end() ? "" : nests->print(compilation);
}

TEST(Passes, TilingsComeWithTheirLoops) {
  GraphBuilder b;
  const auto input = [&](common::Shape shape) {
    return b.input(InputKind::kUser, DType::kFloat32, std::move(shape), "");
  };
  b.output(b.sort_indices(input({4, 1000}), 1, false));
  b.output(b.scan(common::ScanOp::kSum, input({4, 1000}), 1));
  b.output(b.matmul(input({200, 300}), input({300, 200})));
  const std::string gpu = nests_of(b.finish(), "cuda-sm_80");
  const auto follows = [&](const std::string& tiling, const std::string& loops) {
    const size_t begin = gpu.find("\ntiling " + tiling);
    if (begin == std::string::npos) return false;
    const size_t end = gpu.find('\n', begin + 1);
    return gpu.compare(end + 1, loops.size(), loops) == 0;
  };
  EXPECT_TRUE(follows("sort ", "  lines in a network of 1024 places")) << gpu;
  EXPECT_TRUE(follows("scan ", "  lines in chunks of 256, which 8 warps of 32 scan")) << gpu;
  EXPECT_TRUE(follows("thread_tile ", "  rows by ")) << gpu;
}

}  // namespace
}  // namespace coordinator
