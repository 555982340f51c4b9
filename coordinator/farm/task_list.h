// A doubly linked list through its elements: O(1) removal from the middle, no allocation.
#pragma once

#include <cstddef>

namespace coordinator::farm {

template <class T>
struct ListLink {
  T* previous = nullptr;
  T* next = nullptr;
};

// `Link` names the member of T that this list uses. An element is in at most one list per link;
// the list does not own its elements.
template <class T, ListLink<T> T::*Link>
class LinkedList {
 public:
  LinkedList() = default;
  LinkedList(const LinkedList&) = delete;
  LinkedList& operator=(const LinkedList&) = delete;

  bool empty() const { return size_ == 0; }
  size_t size() const { return size_; }
  T* front() const { return front_; }
  static T* next(const T& element) { return (element.*Link).next; }

  void push_back(T& element) { insert(element, back_, nullptr); }
  void push_front(T& element) { insert(element, nullptr, front_); }
  void remove(T& element) {
    ListLink<T>& link = element.*Link;
    (link.previous ? (link.previous->*Link).next : front_) = link.next;
    (link.next ? (link.next->*Link).previous : back_) = link.previous;
    link = {};
    --size_;
  }

 private:
  void insert(T& element, T* previous, T* next) {
    element.*Link = {previous, next};
    (previous ? (previous->*Link).next : front_) = &element;
    (next ? (next->*Link).previous : back_) = &element;
    ++size_;
  }

  T* front_ = nullptr;
  T* back_ = nullptr;
  size_t size_ = 0;
};

}  // namespace coordinator::farm
