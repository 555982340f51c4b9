// Memory of tensors. Large blocks that are given back are kept for the next tensors of about the
// same size: the system clears every page that it gives a process, which takes longer than many
// kernels that write a tensor.
#pragma once

#include <cstddef>
#include <memory>

namespace common {

// A block that is taken again is at most this part larger than what is asked for: an eighth.
inline constexpr size_t kKeptSlack = 8;
// Smaller blocks are the allocator's business.
inline constexpr size_t kKeptBlockBytes = size_t{256} << 10;
// What a process keeps at most; the blocks given back longest ago are freed first. A larger block
// is freed at once.
inline constexpr size_t kKeptBytes = size_t{128} << 20;

// `bytes` of undefined contents, rounded up to a multiple of `alignment`, a power of 2, and aligned
// to it; null without memory. They go back by give_memory(). Both are safe from any thread.
std::byte* take_memory(size_t bytes, size_t alignment);
void give_memory(std::byte* data);
// The same, given back when the pointer is gone.
std::shared_ptr<std::byte> shared_memory(size_t bytes, size_t alignment);

// Bytes that are kept.
size_t kept_bytes();

}  // namespace common
