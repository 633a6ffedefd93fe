// What the environment may say to a test build; and that a release build does not listen.
#include "base/fault_injection.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "base/error.h"

namespace lockstep {
namespace {

class FaultInjectionTest : public testing::Test {
 protected:
  void TearDown() override {
    unsetenv("LOCKSTEP_TEST_FAULT");
    unsetenv("LOCKSTEP_TEST_COMM_DELAY_US");
  }
  static void set(const char* fault, const char* delay) {
    setenv("LOCKSTEP_TEST_FAULT", fault, 1);
    setenv("LOCKSTEP_TEST_COMM_DELAY_US", delay, 1);
  }
};

TEST_F(FaultInjectionTest, NothingWithoutTheVariables) {
  TearDown();
  const FaultInjection faults = FaultInjection::from_environment();
  EXPECT_FALSE(faults.fault);
  EXPECT_EQ(faults.comm_delay_us, 0);
}

TEST_F(FaultInjectionTest, ReadsBothVariablesInATestBuildOnly) {
  set("2:17:stall", "500");
  const FaultInjection faults = FaultInjection::from_environment();
  ASSERT_EQ(faults.fault.has_value(), FaultInjection::enabled());
  EXPECT_EQ(faults.comm_delay_us, FaultInjection::enabled() ? 500 : 0);
  if (!faults.fault) return;
  EXPECT_EQ(faults.fault->rank, 2);
  EXPECT_EQ(faults.fault->step, 17);
  EXPECT_EQ(faults.fault->kind, Fault::Kind::Stall);
}

TEST_F(FaultInjectionTest, KnowsEveryKind) {
  const std::pair<const char*, Fault::Kind> kinds[] = {{"0:0:throw", Fault::Kind::Throw},
                                                       {"0:0:stall", Fault::Kind::Stall},
                                                       {"0:0:exit", Fault::Kind::Exit},
                                                       {"0:0:ulp", Fault::Kind::Ulp}};
  for (const auto& [text, kind] : kinds) {
    set(text, "0");
    const auto fault = FaultInjection::from_environment().fault;
    ASSERT_EQ(fault.has_value(), FaultInjection::enabled());
    EXPECT_EQ(fault.value_or(Fault{.kind = kind}).kind, kind) << text;
  }
}

TEST_F(FaultInjectionTest, RefusesWhatItDoesNotUnderstand) {
  const auto refused = [](const char* fault, const char* delay) {
    set(fault, delay);
    try {
      FaultInjection::from_environment();
      return false;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::Usage);
      EXPECT_THAT(error.what(), testing::HasSubstr("LOCKSTEP_TEST_"));
      return true;
    }
  };
  for (const char* text :
       {"", ":", "::", "1", "1:2", "1:2:", "1:2:die", "1:2:throw ", "1:2:throw:3", " 1:2:throw", "+1:2:throw",
        "-1:2:throw", "1:-2:throw", "1:x:throw", "1.5:2:throw", "99999999999:2:throw", "1:2:THROW"}) {
    EXPECT_EQ(refused(text, "0"), FaultInjection::enabled()) << text;
  }
  for (const char* text : {"", "-1", "5us", " 5", "1e3", "60000001", "99999999999999999999"}) {
    EXPECT_EQ(refused("0:0:throw", text), FaultInjection::enabled()) << text;
  }
  EXPECT_FALSE(refused("0:0:throw", "60000000"));
}

}  // namespace
}  // namespace lockstep
