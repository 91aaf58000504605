#include "snapshot/manifest.h"

#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include "snapshot/snapshot_fixture.h"

namespace stoker::snapshot {
namespace {

Manifest full_manifest() {
  Manifest m =
      made_manifest("Model 7", {made_section("config", 5), made_section("weights", 9'000'000)});
  m.flags = {{"bounded_replay", "exact"}, {"max_model_len", "4096"}};
  m.sha256 = {Sha256{1, 2, 3}, Sha256{255}};
  return m;
}

// A manifest with other lines, and an id= and an end= that are right for them.
std::string resealed_manifest(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  text.replace(at, from.size(), to);
  text.erase(text.rfind("end="));
  const size_t body = text.find("engine.build=");
  const size_t id = text.find("id=") + 3;
  text.replace(id, Digest::kHexDigits, digest_of(text.substr(body)).hex());
  return text + "end=" + digest_of(text).hex() + "\n";
}

TEST(Manifest, IsReadAsWritten) {
  const Manifest manifest = full_manifest();
  const auto read = parse_manifest(manifest_text(manifest));
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(*read, manifest);
  EXPECT_EQ(read->find("weights")->bytes, 9'000'000);
  EXPECT_EQ(read->find("tables"), nullptr);
  EXPECT_EQ(read->bytes(), 9'000'005);
}

TEST(Manifest, IsTheTextOfTheDocument) {
  const Section config = made_section("config", 5);
  const std::string hex = "0102030000000000000000000000000000000000000000000000000000000000";
  const std::string body =
      "engine.build=1.2.3\nengine.layout=1\nengine.numeric=reference-1\nmodel.name=Model 7\n"
      "model.fingerprint=" +
      digest_of("fingerprint").hex() + "\nmodel.digest=" + digest_of("answers").hex() +
      "\nconfig.max_model_len=4096\nhost.isa=x86-avx2\n"
      "host.cpu=A processor\nhost.cores=2\nhost.numa=1\nhost.page=4096\ntopology.ranks=1\n"
      "section=config " +
      config.object() + " 5 4194304 " + config.table_digest.hex() + " " + config.key.hex() +
      "\nsha256=" + hex + "\n";
  const std::string lines = "format=1\nid=" + digest_of(body).hex() +
                            "\ncreated=2026-01-31T12:00:00Z\ntool=stoker 1.2.3\n" + body;
  Manifest manifest = made_manifest("Model 7", {config});
  manifest.flags = {{"max_model_len", "4096"}};
  manifest.sha256 = {Sha256{1, 2, 3}};
  EXPECT_EQ(manifest_text(manifest), lines + "end=" + digest_of(lines).hex() + "\n");
}

TEST(Manifest, TheIdIsOfTheContentAlone) {
  const Manifest manifest = full_manifest();
  Manifest later = manifest;
  later.created = "2027-01-01T00:00:00Z";
  later.tool = "another";
  EXPECT_EQ(later.id(), manifest.id());
  later.flags[0].value = "off";
  EXPECT_NE(later.id(), manifest.id());
}

TEST(Manifest, EveryCutAndEveryChangedBitIsFound) {
  const std::string text = manifest_text(full_manifest());
  for (size_t n = 0; n < text.size(); ++n) {
    EXPECT_FALSE(parse_manifest(text.substr(0, n))) << n;
    for (int bit = 0; bit < 8; ++bit) {
      std::string spoiled = text;
      spoiled[n] = static_cast<char>(spoiled[n] ^ (1 << bit));
      EXPECT_FALSE(parse_manifest(spoiled)) << n;
    }
  }
  EXPECT_FALSE(parse_manifest(text + "\n"));
  EXPECT_FALSE(parse_manifest(text + text));
  EXPECT_FALSE(parse_manifest(std::string(2 << 20, 'x')));
}

TEST(Manifest, WhatIsSealedWellButWrongIsRefused) {
  const std::string text = manifest_text(full_manifest());
  const std::pair<const char*, const char*> kWrong[] = {
      {"engine.layout=1\n", "engine.layout=0\n"},
      {"engine.layout=1\n", "engine.layout=01\n"},
      {"engine.layout=1\n", "engine.layout=99999999999999999999\n"},
      {"engine.layout=1\n", ""},
      {"model.name=Model 7", "model.name=Model\t7"},
      {"model.name=Model 7", "model.name=Model \xff"},
      {"config.max_model_len=4096\n", "config.a_flag=1\n"},
      {"config.max_model_len", "config.Max"},
      {"host.cores=2", "host.cores=-2"},
      {"section=config config-", "section=other config-"},
      {" 5 4194304 ", " 0 4194304 "},
      {" 5 4194304 ", " 5 4096 "},
      {" 5 4194304 ", " 281474976710657 4194304 "},
      {"section=config config-", "section=../x ../x-"},
      {"sha256=ff", "sha256=FF"},
      {"sha256=ff", "sha256=f"},
      {"topology.ranks=1\n", "topology.ranks=1\ntopology.ranks=1\n"}};
  for (const auto& [from, to] : kWrong) {
    const auto read = parse_manifest(resealed_manifest(text, from, to));
    ASSERT_FALSE(read) << to;
    EXPECT_EQ(read.error().code, ErrorCode::kCorruptData) << to;
  }
  ASSERT_TRUE(parse_manifest(resealed_manifest(text, "Model 7", "Model 8")));
}

TEST(Manifest, CountsHaveLimits) {
  Manifest many = full_manifest();
  many.sha256.clear();
  many.sections.clear();
  EXPECT_FALSE(check_manifest(many));
  for (size_t i = 0; i <= kMaxSections; ++i)
    many.sections.push_back(made_section("s" + std::to_string(1000 + i), 1));
  EXPECT_FALSE(check_manifest(many));
  EXPECT_FALSE(parse_manifest(manifest_text(many)));
  many.sections.pop_back();
  EXPECT_TRUE(check_manifest(many));
  EXPECT_TRUE(parse_manifest(manifest_text(many)));
  many.sha256.resize(1);
  EXPECT_FALSE(check_manifest(many));
}

TEST(Manifest, AnotherFormatIsToldFromDamage) {
  const auto read =
      parse_manifest(resealed_manifest(manifest_text(full_manifest()), "format=1", "format=2"));
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code, ErrorCode::kUnsupported);
}

}  // namespace
}  // namespace stoker::snapshot
