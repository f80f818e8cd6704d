// A set of small integers as bits: next member in a circle and n-th member in a few words' time.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace muster::policy {

class IndexSet {
 public:
  void resize(std::size_t size) { words_.resize((size + 63) / 64); }
  bool contains(std::size_t index) const { return (words_[index / 64] >> (index % 64) & 1U) != 0; }
  std::size_t count() const { return count_; }

  void set(std::size_t index, bool member) {
    if (contains(index) == member) return;
    words_[index / 64] ^= std::uint64_t{1} << (index % 64);
    count_ = member ? count_ + 1 : count_ - 1;
  }

  std::size_t words() const { return words_.size(); }
  std::uint64_t word(std::size_t i) const { return words_[i]; }  // members 64 i to 64 i + 63, the lowest bit first
  void set_word(std::size_t i, std::uint64_t members) {
    count_ =
        count_ + static_cast<std::size_t>(std::popcount(members)) - static_cast<std::size_t>(std::popcount(words_[i]));
    words_[i] = members;
  }

  // The first member at or after `from`, wrapping around. Requires a member.
  std::size_t next(std::size_t from) const {
    std::size_t word = from / 64 % words_.size();
    std::uint64_t bits = from / 64 < words_.size() ? words_[word] & (~std::uint64_t{0} << (from % 64)) : words_[word];
    while (bits == 0) {
      word = (word + 1) % words_.size();
      bits = words_[word];
    }
    return word * 64 + static_cast<std::size_t>(std::countr_zero(bits));
  }

  // The n-th member, counting from 0 in ascending order. Requires n < count().
  std::size_t nth(std::size_t n) const {
    std::size_t word = 0;
    for (auto here = static_cast<std::size_t>(std::popcount(words_[0])); n >= here;
         here = static_cast<std::size_t>(std::popcount(words_[word]))) {
      n -= here;
      ++word;
    }
    std::uint64_t bits = words_[word];
    for (; n > 0; --n) bits &= bits - 1;
    return word * 64 + static_cast<std::size_t>(std::countr_zero(bits));
  }

 private:
  std::vector<std::uint64_t> words_;
  std::size_t count_ = 0;
};

}  // namespace muster::policy
