#include "common/process/kept_memory.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <thread>
#include <vector>

#include "common/process/sanitized.h"
#include "common/runtime/tensor/tensor.h"

namespace common {
namespace {

constexpr size_t kMiB = size_t{1} << 20;

// The address that a block had before it was given back.
std::byte* freed_block(size_t bytes) { return shared_memory(bytes, kTensorAlignment).get(); }

TEST(KeptMemory, BlocksOfAboutThatSizeAreTakenAgain) {
  if (kSanitized) GTEST_SKIP() << "no block is kept where reads of freed memory are looked for";
  std::byte* first = freed_block(5 * kMiB);
  std::shared_ptr<std::byte> larger = shared_memory(6 * kMiB, kTensorAlignment);
  EXPECT_NE(larger.get(), first);
  std::shared_ptr<std::byte> small = shared_memory(4 * kMiB, kTensorAlignment);
  EXPECT_NE(small.get(), first) << "a quarter larger than what was asked for";
  std::shared_ptr<std::byte> near = shared_memory(5 * kMiB - 100, kTensorAlignment);
  EXPECT_EQ(near.get(), first);
  std::shared_ptr<std::byte> other = shared_memory(5 * kMiB, kTensorAlignment);
  EXPECT_NE(other.get(), first) << "in use";
}

TEST(KeptMemory, TensorsTakeThem) {
  if (kSanitized) GTEST_SKIP() << "no block is kept where reads of freed memory are looked for";
  auto address = [](int64_t rows) {
    auto tensor = HostTensor::zeros(DType::kFloat32, {rows, 1024});
    EXPECT_TRUE(tensor.ok());
    tensor->mutable_bytes()[0] = std::byte{1};
    return tensor->mutable_bytes().data();
  };
  std::byte* first = address(1777);
  EXPECT_EQ(address(1777), first);
  auto zeros = HostTensor::zeros(DType::kFloat32, {1777, 1024});
  ASSERT_TRUE(zeros.ok());
  EXPECT_EQ(zeros->bytes()[0], std::byte{0});
}

TEST(KeptMemory, WhatIsKeptIsBounded) {
  std::vector<std::shared_ptr<std::byte>> blocks;
  for (size_t k = 0; k < 40; ++k) blocks.push_back(shared_memory((5 + k) * kMiB, 64));
  blocks.clear();
  EXPECT_LE(kept_bytes(), kKeptBytes);
  EXPECT_EQ(kept_bytes() != 0, !kSanitized);
}

TEST(KeptMemory, ABlockThatCannotBeKeptDrivesNoOthersOut) {
  freed_block(5 * kMiB);
  size_t before = kept_bytes();
  freed_block(kKeptBytes + kMiB);
  EXPECT_EQ(kept_bytes(), before);
}

TEST(KeptMemory, SmallOnesAreNotKept) {
  size_t before = kept_bytes();
  freed_block(kKeptBlockBytes / 2);
  EXPECT_EQ(kept_bytes(), before);
}

TEST(KeptMemory, AreAligned) {
  for (size_t bytes : {size_t{1}, size_t{100}, size_t{4096}, 3 * kMiB + 1}) {
    std::shared_ptr<std::byte> block = shared_memory(bytes, 64);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(block.get()) % 64, 0U) << bytes;
  }
}

TEST(KeptMemory, ThreadsShareThem) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([t] {
      for (size_t k = 0; k < 200; ++k) {
        auto block = shared_memory(kMiB + k % 3 * 4096, 64);
        auto mark = static_cast<std::byte>(t);
        block.get()[0] = mark;
        block.get()[kMiB - 1] = mark;
        ASSERT_EQ(block.get()[0], mark);
        ASSERT_EQ(block.get()[kMiB - 1], mark);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_LE(kept_bytes(), kKeptBytes);
}

}  // namespace
}  // namespace common
