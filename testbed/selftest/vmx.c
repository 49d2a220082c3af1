#include "selftest.h"
void test_vmx(void) {}
