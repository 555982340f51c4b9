// A growable array of trivially copyable values that grows with realloc, so that large arrays move
// by remapping pages: growth neither copies nor doubles the peak memory as std::vector would.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <type_traits>
#include <utility>

#include "common/base/check.h"

namespace coordinator {

template <class T>
class FlatArray {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  FlatArray() = default;
  FlatArray(FlatArray&& other) noexcept { swap(other); }
  FlatArray& operator=(FlatArray&& other) noexcept {
    swap(other);
    return *this;
  }
  FlatArray(const FlatArray&) = delete;
  FlatArray& operator=(const FlatArray&) = delete;
  ~FlatArray() { std::free(data_); }

  size_t size() const { return size_; }
  size_t capacity() const { return capacity_; }
  bool empty() const { return size_ == 0; }
  T* data() { return data_; }
  const T* data() const { return data_; }
  T* begin() { return data_; }
  T* end() { return data_ + size_; }
  const T* begin() const { return data_; }
  const T* end() const { return data_ + size_; }
  T& operator[](size_t index) { return data_[index]; }
  const T& operator[](size_t index) const { return data_[index]; }
  T& back() { return data_[size_ - 1]; }

  void push_back(const T& value) {
    if (size_ == capacity_) {
      T copy = value;  // `value` may live in this array
      grow(size_ + 1);
      data_[size_++] = copy;
      return;
    }
    data_[size_++] = value;
  }
  void pop_back() { --size_; }
  void clear() { size_ = 0; }
  void resize(size_t size, const T& fill = T{}) {
    if (size > capacity_) grow(size);
    for (size_t i = size_; i < size; ++i) data_[i] = fill;
    size_ = size;
  }
  void reserve(size_t size) {
    if (size > capacity_) grow(size);
  }
  void swap(FlatArray& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(capacity_, other.capacity_);
  }
  // Bytes in use; capacity beyond it is untouched memory.
  size_t bytes() const { return size_ * sizeof(T); }

 private:
  void grow(size_t at_least) {
    size_t capacity = capacity_ < 8 ? 8 : capacity_ * 2;
    if (capacity < at_least) capacity = at_least;
    void* data = std::realloc(static_cast<void*>(data_), capacity * sizeof(T));
    LFARM_CHECK(data != nullptr, "out of memory");
    data_ = static_cast<T*>(data);
    capacity_ = capacity;
  }

  T* data_ = nullptr;
  size_t size_ = 0;
  size_t capacity_ = 0;
};

}  // namespace coordinator
