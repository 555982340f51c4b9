// Matrix products through OpenBLAS, which is looked for when a device starts and not linked.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "common/base/result.h"
#include "common/runtime/device/device.h"

namespace common {

// Whether Blas::open() would succeed on this machine.
bool blas_available();
// The library's name and version, "OpenBLAS 0.3.20", and the routines that it has chosen for this
// processor; "no OpenBLAS" where none is installed.
std::string blas_description();

// The library's entry points. Thread-safe: every product runs on the thread that asks for it.
class Blas {
 public:
  // While one exists the library runs products on the threads that ask for them. Where the process
  // used the library before, as NumPy and PyTorch may, its number of threads comes back with the
  // last one.
  class OneThread {
   public:
    explicit OneThread(const Blas& blas);
    ~OneThread();
    OneThread(const OneThread&) = delete;
    OneThread& operator=(const OneThread&) = delete;

   private:
    const Blas& blas_;
  };

  // kUnavailable when no libopenblas.so.0 is installed.
  static Result<std::shared_ptr<const Blas>> open();
  ~Blas();
  Blas(const Blas&) = delete;
  Blas& operator=(const Blas&) = delete;

  // One product of the batch, while there is a OneThread; offsets and batch strides of `sizes` are
  // not looked at. f32 and f64, any strides (those that BLAS does not know run in plain loops,
  // slowly). `out` is written without being read. kUnsupported when a size or stride is 2^31 or
  // more.
  Status multiply(const GemmSizes& sizes, const void* a, const void* b, void* out) const;

 private:
  struct Entries;
  explicit Blas(std::unique_ptr<Entries> entries);
  std::unique_ptr<Entries> entries_;
};

}  // namespace common
