// What a compiled kernel and the engine that runs it know of one another; compiled into both, so it
// includes nothing.
#pragma once

namespace lf_emu {

struct Index3 {
  unsigned x, y, z;
};

struct Thread;

// A product of 64 rows and `columns` columns of halves, from matrices that descriptors name;
// `across`: they run along their own axis. Without `adds` the sums' values before do not count.
// `left_registers`: what the lanes of the thread's warp have of the left matrix, as exchange()
// gives it; null: a descriptor names it.
struct Product {
  unsigned long left, right;
  unsigned columns;
  bool is_bf16, left_across, right_across, adds;
  const unsigned char* left_registers;
  int site;
};

// A box of a tensor, from the map that the driver encoded; `blocks`: a bit for each block of the
// cluster that gets it, 0: the thread's own alone. Of maps of windows `pixel` is the place in each
// window, without the first and the last dimension.
struct BoxRequest {
  const void* map;
  int at[5];
  unsigned rank, blocks;
  int site;
  int pixel[3];
  bool has_windows;
};

// What kernels call in the engine. `site` is a line of the kernel's source: all threads of a
// collective operation must come from the same one. Codes are the driver API's.
struct Engine {
  void (*barrier)(Thread*, int site);
  // All living lanes of the calling thread's warp hand over `bytes` bytes and get everyone's. Lane
  // i's lie at kExchangeBytes * i; those of lanes that do not exist or have ended are all ones.
  const unsigned char* (*exchange)(Thread*, int site, const void* value, unsigned bytes,
                                   unsigned mask);
  // A copy that happens no sooner than the wait for it: `zeros` zero bytes follow `bytes` copied.
  void (*copy_async)(Thread*, void* to, const void* from, unsigned bytes, unsigned zeros);
  void (*commit_copies)(Thread*);
  void (*wait_copies)(Thread*, unsigned groups_left);
  bool (*is_shared)(Thread*, const void* address, unsigned bytes);
  // Products of warpgroups, and what orders them; see warpgroups.h.
  void (*begin_product)(Thread*, const Product& product, float* sums);
  void (*fence_products)(Thread*);
  void (*commit_products)(Thread*);
  void (*wait_products)(Thread*, unsigned groups_left);
  void (*fence_async)(Thread*);
  void (*store_shared)(Thread*, void* to, const void* from, unsigned bytes);
  // Barriers in shared memory, boxes whose bytes they count, and clusters; see barriers.h.
  void (*init_barrier)(Thread*, void* barrier, unsigned arrivals);
  void (*fence_barriers)(Thread*);
  // At the barrier in this place of a block of the cluster; -1: of the thread's own.
  void (*arrive)(Thread*, void* barrier, unsigned expected_bytes, int block);
  void (*wait_barrier)(Thread*, void* barrier, unsigned parity, int site);
  void (*copy_box)(Thread*, void* to, void* barrier, const BoxRequest& box);
  void (*cluster_barrier)(Thread*, int site);
  // Before an access of memory that is not the thread's stack, by kernels compiled to tell.
  void (*access)(Thread*, const void* site, const void* address, unsigned bytes, bool is_store);
  // The thread's block is the last of `blocks` that share a sum, and completes it.
  void (*complete)(Thread*, long blocks);
  // Ends the kernel with an error; does not return.
  void (*fail)(Thread*, int code, const char* what, const char* file, unsigned line);
};

constexpr unsigned kWarpSize = 32;
constexpr unsigned kExchangeBytes = 32;

// One thread of the grid, at the top of the stack that it runs on.
struct Thread {
  Index3 thread_index, block_index, block_size, grid_size;
  unsigned char* dynamic_shared;
  const Engine* engine;
  bool has_waited;  // for earlier kernels
};

// Stacks are aligned to their size, so that a thread finds itself from its stack pointer.
constexpr unsigned long kStackBytes = 256 * 1024;
constexpr unsigned long kThreadBytes = 128;
static_assert(sizeof(Thread) <= kThreadBytes);

struct Parameter {
  unsigned bytes;
  bool is_pointer;
};

// One row of the table that a compiled module exports; a null name ends it.
struct Kernel {
  const char* name;
  unsigned threads_max;  // of __launch_bounds__; 0: none
  unsigned cluster;      // of __cluster_dims__, in x; 1: none
  unsigned parameter_count;
  const Parameter* parameters;
  void (*run)(void** parameters);
};

}  // namespace lf_emu
