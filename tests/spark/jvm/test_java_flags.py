"""Flags of the product's JVMs: Java accepts them silently, and ciphers are soon compiled by the second compiler (ADR 0030)."""

import os
import subprocess

import pytest

from backfill_spark.jvm.session import HOT_CODE_ONLY, JVM_OPTIONS

RECORDS = """
import javax.crypto.Cipher;
import javax.crypto.spec.GCMParameterSpec;
import javax.crypto.spec.SecretKeySpec;

public class Records {
    public static void main(String[] arguments) throws Exception {
        byte[] record = new byte[16384], sealed = new byte[record.length + 16], nonce = new byte[12];
        SecretKeySpec key = new SecretKeySpec(new byte[16], "AES");
        for (int number = 0; number < 24000; number++) {
            if (number == 12000) {
                System.out.print(cpu() + " ");
            }
            nonce[0] = (byte) number;
            nonce[1] = (byte) (number >> 8);
            Cipher cipher = Cipher.getInstance("AES/GCM/NoPadding");
            cipher.init(Cipher.ENCRYPT_MODE, key, new GCMParameterSpec(128, nonce));
            cipher.doFinal(record, 0, record.length, sealed, 0);
        }
        System.out.print(cpu());
    }

    static long cpu() {
        return java.lang.management.ManagementFactory.getThreadMXBean().getCurrentThreadCpuTime();
    }
}
"""


@pytest.mark.parametrize("flags", [HOT_CODE_ONLY, JVM_OPTIONS])
def test_java_takes_the_flags_in_silence(flags):
    """A line that Java prints to standard output would be part of the log or of an answer."""
    done = subprocess.run(["java", *flags.split(), "-version"], capture_output=True, text=True, check=False)

    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.rest
def test_ciphers_are_fast_after_200_mb(tmp_path):
    """200 MB take 0.2 s once ciphers are compiled.

    With the thresholds of other code the first 460 MB took 7 s of CPU.
    """
    source = tmp_path / "Records.java"
    source.write_text(RECORDS)
    try:
        subprocess.run(["javac", "-d", str(tmp_path), str(source)], check=True, capture_output=True)
    except FileNotFoundError:
        pytest.skip("no javac: a JDK is needed to compile the program that is measured")
    command = ["java", *HOT_CODE_ONLY.split(), "-cp", str(tmp_path), "Records"]
    # The tests' own Java stops at the first compiler.
    environ = {
        name: value for name, value in os.environ.items() if name not in ("JDK_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS")
    }
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environ)
    began, ended = (int(text) for text in done.stdout.split())

    # 197 MB: 3 s of CPU when interpreted or when only the first compiler compiles.
    assert (ended - began) / 1e9 < 1.2
