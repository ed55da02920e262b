// Counts of live objects.
#include "core/counted.h"

#include <utility>
#include <vector>

#include "test/check.h"

namespace tokengrad {
namespace {

struct Thing {
  Counted<Thing> counted;
};
struct Other {
  Counted<Other> counted;
};

TEST(counted_follows_copies_and_moves) {
  EXPECT_EQUAL(Counted<Thing>::live(), 0);
  {
    const Thing one;
    Thing two = one;
    const Thing three = std::move(two);
    two = three;
    EXPECT_EQUAL(Counted<Thing>::live(), 3);
    std::vector<Thing> many(5);
    many.resize(100);
    EXPECT_EQUAL(Counted<Thing>::live(), 103);
    const Other other;
    EXPECT_EQUAL(Counted<Other>::live(), 1);
  }
  EXPECT_EQUAL(Counted<Thing>::live(), 0);
  EXPECT_EQUAL(Counted<Other>::live(), 0);
}

}  // namespace
}  // namespace tokengrad
