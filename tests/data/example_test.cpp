#include "carillon/data/record.h"

#include <gmock/gmock.h>

#include <limits>
#include <random>

#include "src/data/records/example_proto.h"
#include "tests/data/example_verdict.h"
#include "tests/data/fixtures.h"

namespace carillon {
namespace {

using testing::HasSubstr;

const ExampleKeys keys{.image = "i", .label = "l"};

std::span<const std::uint8_t> bytes_of(const std::string& text) {
  return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

// Writes the wire format by hand: the tests need messages that a generated serialiser never writes.
std::string varint(std::uint64_t value) {
  std::string out;
  for (; value > 127; value >>= 7) out += static_cast<char>(value | 0x80);
  return out + static_cast<char>(value);
}
std::string field(std::uint64_t number, const std::string& body) {
  return varint(number << 3 | 2) + varint(body.size()) + body;
}
std::string entry(const std::string& key, const std::string& feature) {
  return field(1, field(1, key) + field(2, feature));
}
std::string image(const std::string& pixels) { return entry("i", field(1, field(1, pixels))); }
std::string packed(const std::string& key, std::uint64_t value) {
  return entry(key, field(3, field(1, varint(value))));
}
std::string unpacked(const std::string& key, std::uint64_t value) {
  return entry(key, field(3, varint(1 << 3) + varint(value)));
}
std::string example(const std::string& entries) { return field(1, entries); }

Verdict usual_verdict(const std::string& record) { return verdict_on(parse_example, bytes_of(record), keys); }
Verdict generated_verdict(const std::string& record) {
  return verdict_on(parse_example_generated, bytes_of(record), keys);
}

void expect_accepted(const std::string& record, const std::string& pixels, std::int64_t label) {
  const Verdict verdict = usual_verdict(record);
  EXPECT_EQ(verdict.error, "");
  EXPECT_EQ(verdict.label, label);
  EXPECT_EQ(verdict.image, pixels);
  EXPECT_EQ(generated_verdict(record), verdict);
}

void expect_refused(const std::string& record, const std::string& reason) {
  const Verdict verdict = usual_verdict(record);
  EXPECT_THAT(verdict.error, HasSubstr(reason));
  EXPECT_EQ(generated_verdict(record).error, verdict.error);
}

TEST(Example, FeaturesComeInAnyOrder) {
  expect_accepted(example(image("abcd") + packed("l", 7)), "abcd", 7);
  expect_accepted(example(packed("l", 7) + image("abcd")), "abcd", 7);
}

TEST(Example, ALabelMayBePackedOrNot) { expect_accepted(example(image("abcd") + unpacked("l", 7)), "abcd", 7); }

TEST(Example, OtherFeaturesAreIgnored) {
  const std::string others = packed("a", 300) + unpacked("b", ~0ull) + entry("c", field(2, field(1, "12345678"))) +
                             entry("d", field(1, field(1, "x") + field(1, "yz"))) + entry("e", "") +
                             entry(
                                 "gr\xC3\xB6\xC3\x9F"
                                 "e",
                                 field(3, "")) +
                             packed("f", ~0ull);
  expect_accepted(example(others + image("abcd") + packed("l", 0)), "abcd", 0);
}

TEST(Example, UnknownFieldsAreSkippedAtEveryLevel) {
  const std::string unknown = field(15, "what") + varint(14 << 3) + varint(1'000'000);
  const std::string odd_image =
      field(1, field(1, "i") + unknown + field(2, unknown + field(1, field(1, "abcd") + unknown)));
  expect_accepted(unknown + example(unknown + odd_image + packed("l", 7)) + unknown, "abcd", 7);
}

TEST(Example, TheLastEntryOfAKeyCounts) {
  expect_accepted(example(image("wrong") + image("abcd") + packed("l", 1) + packed("l", 2)), "abcd", 2);
}

TEST(Example, SplitMessagesAreMerged) {
  expect_accepted(example(image("abcd")) + example(packed("l", 3)), "abcd", 3);
  // A second int64_list in the same feature: the parser appends the second list's values to the first list's values.
  expect_accepted(example(image("abcd") + entry("l", field(3, "") + field(3, field(1, varint(4))))), "abcd", 4);
  expect_refused(example(image("abcd") + entry("l", field(3, field(1, "\1")) + field(3, field(1, "\2")))),
                 "'l' has 2 values, not 1");
}

TEST(Example, AMissingKeyIsNamedBesideThoseThere) {
  expect_refused(example(packed("l", 7) + packed("x", 1)), "no feature 'i' (features: 'l', 'x')");
  expect_refused(example(image("abcd") + entry("bad\nkey", "")), "no feature 'l' (features: 'bad\\x0akey', 'i')");
  expect_refused("", "no feature 'i' (features: none)");
}

TEST(Example, AWrongKindIsNamed) {
  expect_refused(example(packed("i", 1) + packed("l", 7)), "feature 'i' is int64, not bytes");
  expect_refused(example(image("abcd") + entry("l", field(1, field(1, "7")))), "feature 'l' is bytes, not int64");
  expect_refused(example(image("abcd") + entry("l", "")), "feature 'l' is empty, not int64");
}

TEST(Example, ImagesOfAnyLengthAndLabelsOfAnyValueAreTakenAsTheyAre) {
  expect_accepted(example(image("") + packed("l", 7)), "", 7);
  expect_accepted(example(image(std::string(100'000, 'x')) + packed("l", ~0ull)), std::string(100'000, 'x'), -1);
  expect_accepted(example(image("abcd") + unpacked("l", 1ull << 63)), "abcd", std::numeric_limits<std::int64_t>::min());
}

TEST(Example, BytesThatAreNotProtobufAreRejected) {
  expect_refused("not protobuf", "not a tf.train.Example");
  const std::string whole = example(image("abcd") + packed("l", 7));
  for (std::size_t cut = 1; cut < whole.size(); ++cut) expect_refused(whole.substr(0, cut), "not a tf.train.Example");
  expect_refused(example(image("abcd") + packed("l", 7) + entry("\xFF", "")), "not a tf.train.Example");
  const std::string endless(11, '\x80');
  expect_refused(example(image("abcd") + packed("l", 7) + entry("p", field(3, field(1, endless + "\1")))),
                 "not a tf.train.Example");
}

TEST(Example, VarintsOfEveryLengthAndAlignmentAreJudgedAsByProtobuf) {
  for (std::size_t before = 0; before < 140; ++before)
    for (std::size_t continued = 0; continued < 13; ++continued) {
      const std::string pixels =
          std::string(before, '\1') + std::string(continued, '\x80') + std::string(before % 3, '\1');
      const std::string record = example(image("abcd") + packed("l", 7) + entry("p", field(3, field(1, pixels))));
      EXPECT_EQ(usual_verdict(record), generated_verdict(record)) << before << " then " << continued;
    }
}

/// Makes a random piece of wire format, which is mostly valid.
class RandomExample {
 public:
  explicit RandomExample(std::uint32_t seed) : random_(seed) {}

  std::string next() {
    std::string record;
    for (std::uint32_t parts = below(10) == 0 ? below(3) : 1; parts > 0; --parts) record += example(entries());
    for (std::uint32_t mutations = below(3) == 0 ? below(4) : 0; mutations > 0 && !record.empty(); --mutations)
      mutate(record);
    return record;
  }

 private:
  std::uint32_t below(std::uint32_t bound) { return static_cast<std::uint32_t>(random_()) % bound; }

  std::string entries() {
    std::string out;
    for (std::uint32_t count = below(6); count > 0; --count) out += random_entry();
    if (below(4) != 0) out += image("abcd");
    if (below(4) != 0) out += packed("l", below(11));
    return out;
  }

  std::string random_entry() {
    static const char* const names[] = {"i", "l", "p", "", "\xC3\xA9", "longer_key"};
    const std::string key = names[below(std::size(names))];
    switch (below(8)) {
      case 0:
        return entry(key, field(1, field(1, std::string(below(6), 'z'))));
      case 1:
        return entry(key, field(1, field(1, "abcd") + field(1, "efgh")));
      case 2:
        return packed(key, std::uint64_t{1} << below(64));
      case 3:
        return unpacked(key, below(12));
      case 4:
        return entry(key, field(2, field(1, std::string(below(10), 'f'))));
      case 5:
        return entry(key, field(3, field(1, random_bytes(below(40)))));
      case 6:
        // In this map entry, the value comes before the key.
        return field(1, field(2, field(3, varint(8) + varint(below(20)))) + field(1, key));
      default:
        return entry(key, "") + field(1 + below(20), random_bytes(below(5)));
    }
  }

  std::string random_bytes(std::uint32_t count) {
    std::string bytes;
    for (; count > 0; --count) bytes += static_cast<char>(below(3) == 0 ? 0x80 | below(128) : below(128));
    return bytes;
  }

  void mutate(std::string& record) {
    const std::uint32_t place = below(static_cast<std::uint32_t>(record.size()));
    switch (below(4)) {
      case 0:
        record[place] = static_cast<char>(record[place] ^ (1 << below(8)));
        break;
      case 1:
        record.erase(place, 1 + below(3));
        break;
      case 2:
        record.insert(place, random_bytes(1 + below(3)));
        break;
      default:
        record.resize(place);
        break;
    }
  }

  std::mt19937 random_;
};

TEST(Example, EveryVerdictEqualsThatOfTheGeneratedParser) {
  RandomExample examples(1);
  int accepted = 0;
  constexpr int count = 200'000;
  for (int i = 0; i < count; ++i) {
    const std::string record = examples.next();
    const Verdict verdict = usual_verdict(record);
    accepted += verdict.error.empty();
    ASSERT_EQ(verdict, generated_verdict(record)) << "record " << i << ": " << testing::PrintToString(record);
  }
  EXPECT_GT(accepted, count / 10);
  EXPECT_LT(accepted, count - count / 10);
}

}  // namespace
}  // namespace carillon
